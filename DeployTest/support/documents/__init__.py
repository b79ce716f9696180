"""Pages and tables that commands write: parts of the documentation, results of benchmarks, the summary of CI."""
