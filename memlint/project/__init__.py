"""The user's project: configuration, files, and the versions of the libraries that it uses."""
