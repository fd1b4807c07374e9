"""What heads train on: features of a frozen backbone, extracted once and cached, or batches of pictures."""
