"""Parts of a task: examples, their splits, and the prediction."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """One row of a task: texts, and what is to be said about them.

    Attributes:
        texts: one or more texts, as the file has them; of a multiple choice the text
            that all share and one for each answer.
        label: number of the label in `Task.labels`; for regression the score; None
            where the file does not tell (test sets).
        identifier: the row's index as the file has it, or its number, from 0.
    """

    texts: tuple[str, ...]
    label: int | float | None
    identifier: str


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """Part of a task's data.

    Attributes:
        name: "train", "dev", "test", or with what makes it different after, as in
            "dev_matched".
        num_examples: how many it has as published.
        has_labels: whether every row must have a label.
    """

    name: str
    num_examples: int
    has_labels: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task: what a model predicts and how it is scored.

    Attributes:
        name: benchmark and task, as in "glue/mrpc".
        labels: words for the labels, as files have them; none for regression.
        num_texts: texts of an example.
        metrics: names of its metrics in `seg_tf.tasks.metrics`.
        main_metric: the one that tells which of several models is best.
        splits: its splits, in the order train, dev, test.
        score_range: lowest and highest score of a regression task.
        num_choices: rows of an example of a multiple choice, which have a score each;
            1 for other tasks.
        texts_have_units: whether each line of a text is a unit, whose vectors a probe
            takes apart: that of the text is their mean.
    """

    name: str
    labels: tuple[str, ...]
    num_texts: int
    metrics: tuple[str, ...]
    main_metric: str
    splits: tuple[Split, ...]
    score_range: tuple[float, float] | None = None
    num_choices: int = 1
    texts_have_units: bool = False

    def __post_init__(self):
        if bool(self.labels) == bool(self.score_range):
            raise ValueError(
                "A task must have either `labels` or a `score_range`. Received: "
                f"labels={self.labels}, score_range={self.score_range} ({self.name})"
            )
        if self.main_metric not in self.metrics:
            raise ValueError(
                f"`main_metric` must be one of {list(self.metrics)}. Received: "
                f"{self.main_metric!r} ({self.name})"
            )

    @property
    def is_regression(self) -> bool:
        return not self.labels

    @property
    def num_outputs(self) -> int:
        """Numbers that a model gives for an example: one a label, or the score."""
        return len(self.labels) or 1

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(split.name for split in self.splits)

    def split(self, name: str) -> Split:
        """The split of that name.

        Raises:
            ValueError: if there is none.
        """
        for split in self.splits:
            if split.name == name:
                return split
        raise ValueError(
            f"`split` of {self.name} must be one of {', '.join(self.split_names)}. "
            f"Received: {name!r}"
        )
