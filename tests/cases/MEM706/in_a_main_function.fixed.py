import torch


def main():
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
