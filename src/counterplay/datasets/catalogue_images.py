"""The image sets that ``fetch`` knows: forms on disk, official addresses, checksums."""

from __future__ import annotations

from counterplay.datasets import images
from counterplay.datasets.sources import Entry, Extract, Form, Remote

_IDX = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_EMNIST = tuple(
    f"emnist-balanced-{part}-{what}-ubyte.gz"
    for part in ("train", "test")
    for what in ("images-idx3", "labels-idx1")
)
_CIFAR_BINARY = tuple(
    f"cifar-10-batches-bin/{name}.bin"
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
)

IMAGES = (
    Entry(
        name="cifar10",
        kind="images",
        title="CIFAR-10: 60,000 colour photos of 32 x 32 pixels, 10 classes.",
        description="Training part of 50,000 and test part of 10,000 images, values 0 to 255.",
        forms=(
            Form(("cifar-10-binary.tar.gz",), images.read_cifar_binary, 60_000),
            Form(_CIFAR_BINARY, images.read_cifar_binary, 60_000, "the same archive, unpacked"),
            Form(
                ("cifar10_jpegq90.npz",),
                images.read_cifar_sheets,
                60_000,
                "lossy copy: JPEG of quality 90, mean error 3 of 255",
            ),
        ),
        target_names=(
            "airplane",
            "automobile",
            "bird",
            "cat",
            "deer",
            "dog",
            "frog",
            "horse",
            "ship",
            "truck",
        ),
        source="A. Krizhevsky, Learning multiple layers of features from tiny images, 2009; "
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        licence="no formal licence; the authors ask to be cited",
        remotes=(
            Remote(
                ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                "cifar-10-binary.tar.gz",
            ),
        ),
    ),
    Entry(
        name="emnist_balanced",
        kind="images",
        title="EMNIST-Balanced: handwritten digits and letters of 28 x 28 pixels, 47 classes.",
        description="Official split: 112,800 training and 18,800 test images. Letters whose upper "
        "and lower case look alike share a class. Images are returned upright.",
        forms=(
            Form(_EMNIST, images.read_emnist_split, 131_600),
            Form(
                ("emnist47_subset.npz",),
                images.read_npz_split,
                57_596,
                "the 47 classes with a split of its own, 50,546 and 7,050 images; not the "
                "official split",
            ),
        ),
        target_names=tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt"),
        source="G. Cohen et al., EMNIST, 2017; "
        "https://www.nist.gov/itl/products-and-services/emnist-dataset",
        licence="made from NIST Special Database 19, a work of the US government",
        remotes=(
            Remote(
                ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",),
                "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
                "gzip.zip",
                tuple(Extract((f"gzip/{name}",), name) for name in _EMNIST),
            ),
        ),
    ),
    Entry(
        name="fashion_mnist",
        kind="images",
        title="Fashion-MNIST: 70,000 grey pictures of clothes, 28 x 28 pixels, 10 classes.",
        description="Training part of 60,000 and test part of 10,000 images.",
        forms=(Form(_IDX, images.read_idx_split, 70_000, only_subfolder=True),),
        target_names=(
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
        source="H. Xiao, K. Rasul, R. Vollgraf, 2017; "
        "https://github.com/zalandoresearch/fashion-mnist (Debian: dataset-fashion-mnist)",
        licence="MIT",
        remotes=tuple(
            Remote(
                (
                    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/"
                    f"fashion/{name}",
                    f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}",
                ),
                sha256,
                name,
            )
            for name, sha256 in zip(
                _IDX,
                (
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                ),
            )
        ),
    ),
    Entry(
        name="mnist",
        kind="images",
        title="MNIST: 70,000 handwritten digits of 28 x 28 pixels, 10 classes.",
        description="Official split: 60,000 training and 10,000 test images.",
        forms=(
            Form(("mnist.npz",), images.read_npz_split, 70_000),
            Form(_IDX, images.read_idx_split, 70_000, only_subfolder=True),
        ),
        target_names=tuple("0123456789"),
        source="Y. LeCun, C. Cortes, C. Burges; http://yann.lecun.com/exdb/mnist/",
        licence="usually given as CC BY-SA 3.0",
        remotes=tuple(
            Remote(
                (
                    f"https://storage.googleapis.com/cvdf-datasets/mnist/{name}",
                    f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}",
                ),
                sha256,
                name,
            )
            for name, sha256 in zip(
                _IDX,
                (
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            )
        ),
    ),
)
