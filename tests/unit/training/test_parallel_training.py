import torch
from torch import multiprocessing, nn

from training.parallel_training import Meeting

WEIGHTS = 6


def network(value: float) -> nn.Module:
    layer = nn.Linear(WEIGHTS - 1, 1)
    for weights in layer.parameters():
        nn.init.constant_(weights, value)
    return layer


def attend(meeting: Meeting, value: float) -> None:
    meeting.attend(network(value))


def test_each_process_continues_with_the_mean_of_the_last_weights() -> None:
    first = Meeting.open(network(0.0), processes=2)
    second = Meeting(first.shelf, seat=1)
    second.attend(network(3.0))
    mine = network(1.0)
    first.attend(mine)
    assert all((weights == 2.0).all() for weights in mine.parameters())


def test_weights_that_another_process_left_are_seen() -> None:
    meeting = Meeting.open(network(0.0), processes=2)
    context = multiprocessing.get_context("spawn")
    other = context.Process(target=attend, args=(Meeting(meeting.shelf, 1), 4.0))
    other.start()
    other.join(60)
    assert other.exitcode == 0
    torch.testing.assert_close(meeting.shelf[1], torch.full((WEIGHTS,), 4.0))
