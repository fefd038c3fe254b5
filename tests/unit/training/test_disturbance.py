"""What is heard is disturbed, and the same step is disturbed alike after a break."""

import torch

from training.sound.disturbance import Disturbance


def test_doubt_about_the_voicing_stays_a_share() -> None:
    voiced = (torch.arange(160) % 50 < 30).float().expand(8, -1)
    doubted = Disturbance(seed=3).doubt(voiced)
    assert not torch.equal(doubted, voiced)
    assert bool(((doubted >= 0) & (doubted <= 1)).all())


def test_another_tract_moves_the_bands_of_some() -> None:
    power = torch.zeros(20, 4, 80)
    power[:, :, 40] = 1
    peaks = Disturbance(seed=3).tract(power)[:, 0].argmax(1)
    assert 4 < int((peaks == 40).sum()) < 16
    assert int((peaks - 40).abs().max()) <= 7


def test_a_step_is_disturbed_alike_after_a_break() -> None:
    voiced = torch.ones(4, 160)
    whole, resumed = Disturbance(seed=3), Disturbance(seed=3)
    whole.doubt(voiced)
    for one in (whole, resumed):
        one.seed(7)
    assert torch.equal(whole.doubt(voiced), resumed.doubt(voiced))
