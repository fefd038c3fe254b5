"""What the promises about speed are measured with; see README.md."""
