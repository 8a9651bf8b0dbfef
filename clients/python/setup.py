"""Stops the build if the generated stubs are missing. All other settings are in pyproject.toml."""

import sys
from pathlib import Path

if not Path(__file__).with_name("src").joinpath("easel_grpc", "v1").is_dir():
    sys.exit("clients/python has no generated stubs: run make package-python in the checkout, and install the wheel in .build/packages")

from setuptools import setup

setup()
