"""A published release in another form: CSV, Parquet in folders, Stata or SPSS with labels.

What is exported are the bytes that were checked, read again; the release
itself stays as it is, and only it is signed.
"""

from anonpipe.export._csv import export_csv
from anonpipe.export._folders import export_folders
from anonpipe.export._labelled import LABELLED, export_labelled
from anonpipe.export._released import Exported

__all__ = ["LABELLED", "Exported", "export_csv", "export_folders", "export_labelled"]
