# api: any fails: sometimes cause: pinned_allocation_in_other_thread|event_query_in_other_thread|data_loader_beside_python_capture|wait_in_other_thread
import torch
from torch.utils.data import DataLoader, TensorDataset


def capture():
    data = TensorDataset(torch.randn(24, 1 << 20), torch.randint(0, 10, (24,)))
    for _ in DataLoader(data, batch_size=2, pin_memory=True, num_workers=1):
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="global"):
                torch.randn(64, device="cuda")
        except RuntimeError:
            break


if __name__ == "__main__":
    capture()
