"""What both services have over HTTP: answers, reasons, metrics, logs."""
