"""Learning on one device: networks, views, targets, assignment, objectives and the one training loop (Sec. 3.5)."""
