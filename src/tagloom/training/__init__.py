"""One loop for every task, features kept once, checkpoints that continue bit for bit."""
