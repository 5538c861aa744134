"""What tests share: models, cases, runners."""
