"""Summary of a finished build, for people."""

from data_pipelines.builds import rejections, text_counts
from data_pipelines.cleaning import drop_counts
from data_pipelines.readers import COUNTED_REASONS
from data_pipelines.readers.io import passed_over
from data_pipelines.records.manifest import COUNTS, SPLITS, Manifest

_NO_VALIDATION = (
    "warning: nothing is held out, so that nothing measures what a run has learned. "
    "Build with a larger --validation_fraction or with --validation_input, or train "
    "with --config.training.validation_interval=0"
)


def summary(manifest: Manifest) -> str:
    """The counts of a build as a few lines for people."""
    lines = []
    for split in SPLITS:
        names = {name: name for name in COUNTS} | {"pieces": manifest.tokens_name}
        counts = ", ".join(
            f"{manifest.count(what, split):,} {name}" for what, name in names.items()
        )
        lines.append(f"{split}: {counts}")
    if (text := text_counts.summary(manifest)) is not None:
        lines.append(text)
    if not manifest.count("records", "validation"):
        lines.append(_NO_VALIDATION)
    if manifest.rejected:
        is_listed = not COUNTED_REASONS.issuperset(manifest.rejected)
        where = f" (see {rejections.FILE_NAME})" if is_listed else ""
        lines.append(f"left out: {rejections.in_words(manifest.rejected)}{where}")
    if manifest.passed_over:
        lines.append(passed_over.summary(manifest.passed_over))
    if manifest.cleaning:
        lines.append(drop_counts.summary(manifest.cleaning))
    return "\n".join(lines)
