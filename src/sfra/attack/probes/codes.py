"""Numbers of the proposals and scores inside the kernels, free of any import."""

GAUSSIAN, UNIFORM, LAPLACE, RELU_GAUSSIAN, ABS_GAUSSIAN = range(5)
SOFTMAX, ENTROPY, ENERGY = range(3)
