"""Small federations for the tests of sampled training; those of the study."""

from counterplay.studies.defection.sampling import HuberWorld, SampleOnly, huber

__all__ = ["HuberWorld", "SampleOnly", "huber"]
