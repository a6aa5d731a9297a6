import torch


def main():
    torch.autograd.set_detect_anomaly(mode=True)  # expect: MEM706
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
