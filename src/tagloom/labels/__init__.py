"""Sets of labels: which co-occur, which share a query, which are seen and unseen."""
