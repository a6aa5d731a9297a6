# about: Tests.
import torch


def test_window():
    layer = torch.nn.Linear(2, 2)
    layer.eval()
    assert layer(torch.ones(2)).shape == (2,)
