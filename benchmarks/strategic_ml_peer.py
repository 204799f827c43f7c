"""The strategic hinge of the peer strategic-ml, for the benchmarks of both strategic parts."""

from __future__ import annotations


def strategic_ml_hinge(X, y, radius: float, epochs: int = 10):
    """The s-hinge set-up of strategic-ml's introduction, returned as (weights, offset).

    Its loss fixes the cost at 1 per unit and the gain at 2, a budget of 2, so that features are
    scaled to make ``radius`` equal 2.
    """
    import logging

    import pytorch_lightning as pl
    import strategic_ml as sml
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    torch.manual_seed(0)
    rows = torch.tensor(2 / radius * X, dtype=torch.float32)
    labels = torch.tensor(2.0 * y - 1, dtype=torch.float32).reshape(-1, 1)
    loader = DataLoader(TensorDataset(rows, labels), batch_size=64, shuffle=True)
    model = sml.LinearModel(in_features=X.shape[1])
    delta = sml.LinearStrategicDelta(
        strategic_model=model, cost=sml.CostNormL2(dim=1), cost_weight=1.0
    )
    suit = sml.ModelSuit(
        model=model,
        delta=delta,
        loss_fn=sml.StrategicHingeLoss(model=model, delta=delta),
        train_loader=loader,
        validation_loader=loader,
        test_loader=loader,
        training_params={"optimizer_class": torch.optim.SGD, "optimizer_params": {"lr": 0.01}},
    )
    trainer = pl.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, limit_val_batches=0,
    )  # fmt: skip
    trainer.fit(suit)
    weights, bias = model.get_weight_and_bias()
    return 2 / radius * weights.numpy()[0].astype(float), float(bias[0])
