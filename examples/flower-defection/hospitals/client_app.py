"""What a hospital does: train on its own rows, and leave once the model is good enough."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from counterplay.defection.flower import RationalClient
from counterplay.federated.flower import torch_report
from hospitals.task import load_data, make_module

# The mod compares the hospital's loss with "threshold" of its node config or of the run config.
app = ClientApp(mods=[RationalClient(threshold="threshold")])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer with the loss, the gradient and the local update; the rows stay here."""
    me = int(context.node_config["partition-id"])
    data = load_data(me, int(context.node_config["num-partitions"]))
    return torch_report(message, context, make_module(), data, name=f"hospital {me}")
