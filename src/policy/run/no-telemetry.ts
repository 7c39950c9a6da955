// Turns off ONNX Runtime's telemetry: to be imported on the main thread by whatever starts a thread that loads the library.

// The library's own binary sends by default, and leaves files in the temporary folder. It asks the process's environment when
// it is loaded: a thread's `process.env` is a copy of it, in which this would come to nothing.
process.env.ORT_DISABLE_TELEMETRY = '1';
