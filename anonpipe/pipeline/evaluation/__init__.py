"""What is measured of a run's release on private samples: utility, risk and the recipients' analyses."""
