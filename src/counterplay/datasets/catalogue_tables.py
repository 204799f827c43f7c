"""The tables, texts and forecasts that ``fetch`` knows, with the meaning of label 1.

The addresses of UCI archives carry no checksum, because those archives are packed anew from time
to time; the files inside are checked instead.
"""

from __future__ import annotations

from counterplay.datasets import tables
from counterplay.datasets.sources import Entry, Extract, Form, Remote

_UCI = "https://archive.ics.uci.edu"
_CC_BY = "CC BY 4.0 according to UCI; check it at the source"
_UNKNOWN = "not known; check before you redistribute"

CREDIT_AND_CENSUS = (
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

LOCAL_TABLES = (
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
)

FRAMES = (
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
