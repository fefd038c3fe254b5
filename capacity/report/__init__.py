"""How a study is shown: tables, the picture, the page, and the file for Terraform."""
