"""The cloud side of a kill path: instances, their catalogue and prices, spot notices, who may launch.

No botocore exception leaves this package.
"""
