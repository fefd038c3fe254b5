# For a trial plan of the module itself.
allowed_origins = ["https://voice.example.com"]
project_id      = "demo-project"
region          = "europe-west1"
