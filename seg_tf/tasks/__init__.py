"""Tasks to fine-tune on: their files as examples, their metrics, their settings.

>>> from seg_tf import tasks
>>> task = tasks.get("glue/mrpc")
>>> task.labels, task.num_texts, task.main_metric
(('0', '1'), 2, 'f1')
>>> [split.name for split in task.splits]
['train', 'dev', 'test']

`tasks.read(task, data_dir, "train")` gives its examples. Nothing here needs TensorFlow.
"""

from seg_tf.tasks.example import Example, Split, Task
from seg_tf.tasks.registry import check_name, get, names, read

__all__ = ["Example", "Split", "Task", "check_name", "get", "names", "read"]
