"""The processes of a container: servers, probes, limits, supervision."""
