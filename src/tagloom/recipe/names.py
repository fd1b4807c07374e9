"""The closed tables of names that a recipe may use. Torch-free, so that a recipe is checked in any install."""

HEAD_NAMES = (
    "gap",
    "layover",
    "ml-decoder",
    "ml-decoder-small",
    "ml-decoder-words",
    "ml-decoder-words-grouped",
    "transformer-decoder",
    "query2label",
    "hsq",
    "tf",
    "query",
)

LOSS_NAMES = ("asymmetric", "focal", "bce", "soft-margin", "cross-entropy")

# What a paper may report of a recipe, in percent: "zsl" of unseen labels only, "gzsl" of all labels, "baseline" of the
# same training without teachers.
FIGURE_NAMES = (
    *("mAP", "CF1", "OF1", "top1", "baseline_mAP"),
    *("zsl_mAP", "zsl_F1@3", "zsl_F1@5", "gzsl_mAP", "gzsl_F1@3", "gzsl_F1@5"),
)
