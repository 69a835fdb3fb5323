"""Probes of frozen encoders: DiscoEval's protocol (Chen et al., 2019)."""

from seg_tf.finetuning.probing.frozen_encoder import MODES, FrozenEncoder
from seg_tf.finetuning.probing.probe_runner import ProbeRunner, probe_setting

__all__ = ["MODES", "FrozenEncoder", "ProbeRunner", "probe_setting"]
