"""Nodes that stand for others: functions of a file and of ONNX, and nodes with graphs inside."""
