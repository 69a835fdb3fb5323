"""Probes of frozen encoders: DiscoEval's protocol (Chen et al., 2019)."""

from seg_tf.finetuning.probing.frozen_encoder import FrozenEncoder
from seg_tf.finetuning.probing.probe_runner import ProbeRunner

__all__ = ["FrozenEncoder", "ProbeRunner"]
