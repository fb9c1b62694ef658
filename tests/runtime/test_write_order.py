"""A read and a write of one variable keep their order where they must; else it is left to chance, mostly a wrong one."""

import pytest


@pytest.fixture(autouse=True)
def as_it_comes(tf):
    """Whatever was trained in this process before."""
    from tapeline.runtime import write_order

    write_order.as_it_comes()
    yield
    write_order.as_it_comes()


@pytest.fixture
def counted(tf):
    """Call a step four times, in which a slow read is followed by a fast write; return what was read."""

    def call():
        count, other = tf.Variable(tf.zeros([4])), tf.Variable(0.0)

        @tf.function
        def step(matrix, one):
            slow = matrix
            for _ in range(4):
                slow = tf.matmul(slow, matrix)
            with tf.control_dependencies([slow]):
                seen = tf.reduce_sum(count.read_value())
            first, second = tf.identity_n([one, seen])
            count.assign_add(first)
            other.assign_add(second)
            return seen

        return [float(step(tf.zeros([600, 600]), tf.ones([4]))) for _ in range(4)]

    return call


def test_a_variable_is_read_before_it_is_written(tf, counted):
    from tapeline.runtime import write_order

    write_order.keep()
    assert counted() == [0, 4, 8, 12]


def test_what_a_model_names_does_not_depend_on_a_training_before(tf):
    from tapeline.runtime import startup, write_order

    before = tf.config.optimizer.get_experimental_options()
    write_order.keep()
    assert tf.config.optimizer.get_experimental_options() != before
    startup.tensorflow()
    assert tf.config.optimizer.get_experimental_options() == before
