import pytest
import torch


@pytest.fixture
def model():
    return torch.nn.Linear(2, 2)


def test_saving_keeps_outputs(model, tmp_path):
    model.eval()
    before = model(torch.ones(2))
    torch.testing.assert_close(before, reload(model, tmp_path)(torch.ones(2)))
