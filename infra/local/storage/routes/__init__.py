"""The APIs: JSON, XML, uploads, signatures."""
