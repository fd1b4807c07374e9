"""What a training reads: features of a frozen backbone, extracted once and cached, or pictures; both as batches."""
