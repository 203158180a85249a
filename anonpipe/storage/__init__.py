"""What lies on disk: staging, versions, releases, release logs."""
