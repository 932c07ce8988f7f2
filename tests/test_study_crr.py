"""Studies of CRR: what they state, what they learn, and one sentence for what is wrong."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from tests.crr_studies import ROWS, STUDY, crr_study, write_crr
from tests.planning_studies import study_text
from tinyldp.certify import certify, text_certificate
from tinyldp.crr.model import PRIOR_SCALE, ROW_SCALE, stationary, whole_shares
from tinyldp.crr.training import train
from tinyldp.errors import UserError
from tinyldp.planning import plan, text_plan
from tinyldp.planning.board_memory import mechanism_bytes
from tinyldp.planning.crr import choose_crr
from tinyldp.planning.training import trained_study, training_json, training_line
from tinyldp.simulate import simulate, sweep
from tinyldp.simulate.crr_sweeps import two_states
from tinyldp.simulate.limits import check_table
from tinyldp.study import load_study, load_task
from tinyldp_device.mechanism import pool_words
from tinyldp_device.quantize import Quantizer
from tinyldp_protocol.framing import HEAD, TAIL
from tinyldp_protocol.messages import put_release
from tinyldp_protocol.task import CRR, CRR_BATCH

PRIOR = "prior = [0.4, 0.35, 0.25]"
TRAIN = STUDY.replace(PRIOR, "").replace(f"transitions = {ROWS}", 'train = "t.csv"')
BATCH = (
    STUDY.replace('"crr"', '"crr-batch"\nblock = 2')
    .replace(PRIOR, "prior = [0.4, 0.6]")
    .replace(ROWS, "[[0.9, 0.1], [0.2, 0.8]]")
    .replace("domain = 3", "domain = 2")
)


def test_what_a_study_states_is_what_its_task_has(tmp_path):
    study = crr_study(tmp_path)
    task = study.task([6028 << 10])
    assert (task.mechanism, task.rule, task.loss, task.costs) == (CRR, 1, 1, None)
    assert task.prior == [13107, 11469, 8192]
    assert task.transitions[:3] == [9830, 3277, 3277]
    study.check(task)
    assert study.title == "CRR"


@pytest.mark.parametrize(("name", "number"), [("hamming", 1), ("absolute", 2), ("squared", 3)])
def test_losses_by_name(tmp_path, name, number):
    study = crr_study(tmp_path, STUDY.replace(PRIOR, f'{PRIOR}\nloss = "{name}"'))
    assert study.task([1 << 20]).loss == number


def test_a_table_of_losses(tmp_path):
    table = "[[0, 1, 1023], [1, 0, 7], [1023, 7, 0]]"
    task = crr_study(tmp_path, STUDY.replace(PRIOR, f"{PRIOR}\nloss = {table}")).task([1 << 20])
    assert (task.loss, task.costs) == (4, [0, 1, 1023, 1, 0, 7, 1023, 7, 0])


def test_blocks_with_memory(tmp_path):
    text = BATCH.replace("block = 2", "block = 3\nmemory = 2")
    text = text.replace("[0.4, 0.6]", "[0.4, 0.2, 0.2, 0.2]")
    text = text.replace(
        "[[0.9, 0.1], [0.2, 0.8]]", "[[0.9, 0.1], [0.5, 0.5], [0.4, 0.6], [0.3, 0.7]]"
    )
    task = crr_study(tmp_path, text).task([1 << 20])
    assert (task.mechanism, task.block, task.memory, task.rule) == (CRR_BATCH, 3, 2, 2)
    assert len(task.prior) == 4
    assert len(task.transitions) == 8


def test_without_a_prior_the_long_run_is_the_prior(tmp_path):
    task = crr_study(tmp_path, STUDY.replace(PRIOR, "")).task([1 << 20])
    moved = [
        sum(task.prior[x] * task.transitions[3 * x + y] for x in range(3)) / ROW_SCALE
        for y in range(3)
    ]
    assert moved == pytest.approx(task.prior, abs=2)


def test_the_integers_may_be_stated(tmp_path):
    text = STUDY.replace("epsilon = 1", "").replace(PRIOR, f"{PRIOR}\nthreshold = 1048576")
    assert choose_crr(crr_study(tmp_path, text)).task.thresholds == [1 << 20]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (PRIOR, "prior = [0.6, 0.4, 0.0]", "prior must be above 0 for every symbol .* for 2: who"),
        (PRIOR, "prior = [0.6, 0.4]", "prior must have 3 numbers, but has 2"),
        (PRIOR, "prior = [0.6, 0.4, 0.4]", "prior must sum to 1, but sums to 1.4"),
        (PRIOR, "prior = [0.6, 0.5, -0.1]", "prior must have no number below 0, but has -0.1"),
        (
            "[0.3, 0.4, 0.3]",
            "[0.3, 0.4, 0.2]",
            "transitions: the row of symbol 1 must sum to 1, but .* 0.9",
        ),
        ("[0.3, 0.4, 0.3]", "[0.3, 0.7]", "the row of symbol 1 must have 3 numbers, but has 2"),
        ("[0.3, 0.4, 0.3]", "[0, 1, 0]", "the row of symbol 1 says what follows for certain"),
        (", [0.2, 0.3, 0.5]]", "]", "transitions must be 3 rows.*but there are 2"),
        (f"transitions = {ROWS}", "", "transitions is missing: give .* train"),
        (ROWS, "[0.5, 0.5]", "transitions must be a list of rows.* but the row of symbol 0 is 0.5"),
        (ROWS, "[]", "transitions must be a list of rows, lists of numbers"),
        ("0.3, 0.5]]", "nan, 0.5]]", "each number of the row of symbol 2 must be an ord.* not NaN"),
        (
            "0.3, 0.5]]",
            '"x", 0.5]]',
            "transitions: each number of the row of symbol 2 must be a num",
        ),
        ("0.3, 0.5]]", "0.3, 0.5], [true]]", "each number of row 4 must be a number"),
        (ROWS, '[["a"]]', "transitions: each number of the row of symbol 0 must be a number"),
        (
            f"{PRIOR}\ntransitions = {ROWS}",
            "transitions = [[0.9, 0.1, 0], [0.1, 0.9, 0], [0.1, 0.1, 0.8]]",
            "prior is missing, and the transitions don't make up for it",
        ),
        (
            PRIOR,
            f'{PRIOR}\nrule = "min-error"',
            "rule must be one of .* nearest known is min_error",
        ),
        (
            PRIOR,
            f'{PRIOR}\nloss = "l1"',
            '"squared", or a table of 3 rows of 3 integers, not "l1".$',
        ),
        (PRIOR, f"{PRIOR}\nloss = 3", "loss must be one of .*, or a table .* integers, not 3.$"),
        (PRIOR, f"{PRIOR}\nloss = [[0, 'x']]", "loss: each number of the row of symbol 0 must be"),
        (PRIOR, f'{PRIOR}\nrule = "foo"', '"preserve", "min_error", "table", not "foo".$'),
        (PRIOR, f"{PRIOR}\nrule = 1", 'of "preserve", "min_error", "table", not 1.$'),
        (PRIOR, f"{PRIOR}\nrule = {{ a = 1 }}", "not a section.$"),
        (PRIOR, f"{PRIOR}\nloss = [[0, 1], [1, 0]]", "loss must be a table of 3 rows of 3"),
        (PRIOR, f"{PRIOR}\nloss = [[0,1,2],[1,0,1],[3,1,0]]", "symmetric, but has 2 for 0 and 2"),
        (PRIOR, f"{PRIOR}\nloss = [[0,1,2],[1,5,1],[2,1,0]]", "0 for 1 and 1, but has 5"),
        (PRIOR, f"{PRIOR}\nloss = [[0,1,0.5],[1,0,1],[0.5,1,0]]", "integers 0..1023, but has 0.5"),
        (PRIOR, f"{PRIOR}\nloss = [[0,1,1024],[1,0,1],[1024,1,0]]", "0..1023, but has 1024"),
        (PRIOR, f"{PRIOR}\nblock = 2", "block is for CRR in blocks alone, not for CRR"),
        (
            PRIOR,
            f"{PRIOR}\nwindow = 3",
            "window is for RanSwitch and .* alone, not for CRR",
        ),
        (PRIOR, f"{PRIOR}\nsmoothing = 1", "smoothing is for train alone"),
        (PRIOR, f'{PRIOR}\ntrain = "t.csv"', "prior can't be given beside train"),
        (PRIOR, f"{PRIOR}\nthreshold = 1000", "threshold must be a multiple of 1024"),
        (PRIOR, f"{PRIOR}\nepochs = 4", "epochs is for Thresh and HeavyThresh alone"),
        ("epsilon = 1", "epsilon = 1\nk = 3", "k is for .* alone, not for CRR"),
        ("epsilon = 1", "epsilon = 1\ndelta = 0.1", "delta is for w steps together.*w is missing"),
        ("epsilon = 1", "epsilon = 1\ndelta = 0\nw = 3", "delta is for w steps.*must be above 0"),
        ("epsilon = 1", "", "Nothing says how much CRR must hide"),
        ("domain = 3", "domain = 33", "domain must be 32 or less for CRR, but is 33"),
        ("domain = 3", "domain = 3\n[fleet]\nboard_memory = 0", "board_memory must be 1 byte or"),
    ],
)
def test_bad_studies_get_one_sentence(tmp_path, old, new, sentence):
    assert old in STUDY
    with pytest.raises(UserError, match=sentence) as error:
        crr_study(tmp_path, STUDY.replace(old, new))
    assert str(error.value).endswith(".")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("block = 2", "", "block is missing"),
        ("block = 2", "block = 1", "block must lie in 2..10, but is 1"),
        ("block = 2", "block = 2\nmemory = 3", "memory must lie in 1..2, the block, but is 3"),
        ("block = 2", 'block = 2\nrule = "preserve"', 'rule must be "min_error" or "table"'),
        ("domain = 2", "domain = 12", "transitions must be 12 rows"),
    ],
)
def test_bad_blocks_get_one_sentence(tmp_path, old, new, sentence):
    with pytest.raises(UserError, match=sentence):
        crr_study(tmp_path, BATCH.replace(old, new))


def test_blocks_for_which_no_device_has_room(tmp_path):
    text = BATCH.replace("domain = 2", "domain = 8").replace("block = 2", "block = 4")
    with pytest.raises(UserError, match=r"blocks of 4 make 4,096 .* a block of 3 would"):
        crr_study(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CRR", "crr"),
        ("ccr", "crr"),
        ("crr_batch", "crr-batch"),
        ("crr-block", "crr-batch"),
        ("CRR-Batch", "crr-batch"),
        ("randomized", None),
    ],
)
def test_an_unknown_mechanism_is_named_before_its_keys(tmp_path, name, meant):
    end = f"; the nearest known is {meant}." if meant else "."
    for text in (STUDY, TRAIN, BATCH):
        old = '"crr-batch"' if "crr-batch" in text else '"crr"'
        with pytest.raises(UserError) as error:
            crr_study(tmp_path, text.replace(old, f'"{name}"'))
        assert "[mechanism] name must be one of" in str(error.value)
        assert str(error.value).endswith(f'not "{name}"{end}')


@pytest.mark.parametrize("name", ["ranswitch", "grr", "lbd", "thresh"])
def test_other_mechanisms_have_none_of_it(tmp_path, name):
    path = tmp_path / "s.toml"
    path.write_text(study_text(name, "epsilon = 1", 'rule = "preserve"'))
    with pytest.raises(UserError, match=f"rule is for CRR alone, not for {name}"):
        load_study(path)


def test_training_counts_what_follows_but_not_from_series_to_series():
    model = train([[0, 1, 0, 1], [2, 2, 2]], 3, 1, Fraction(1))
    # 0 is followed by 1 twice, 1 by 0 once, 2 by 2 twice, and each count has one more.
    assert model.transitions == tuple(
        whole_shares([Fraction(n) for n in row], ROW_SCALE)[i]
        for row in ([1, 3, 1], [2, 1, 1], [1, 1, 3])
        for i in range(3)
    )
    assert model.prior == tuple(whole_shares([Fraction(n) for n in (3, 3, 4)], PRIOR_SCALE))


def test_training_with_memory(tmp_path):
    model = train([[0, 0, 1, 0, 0, 1]], 2, 2, Fraction(1))
    # After 0, 0 comes 1 twice; after 0, 1 comes 0; after 1, 0 comes 0; after 1, 1 nothing.
    assert model.transitions == (4096, 12288, 10923, 5461, 10923, 5461, 8192, 8192)
    assert sum(model.prior) == PRIOR_SCALE


@pytest.mark.parametrize(
    ("values", "symbols"),
    [
        ("bins = [10, 20]", [0, 1, 0, 2, 0, 0]),
        ("bins = [10, 20]\nmissing = 1", [0, 1, 1, 2, 1, 0]),
        ("bins = [10, 20]\nmissing = 3", [0, 1, 3, 2, 3, 0]),
    ],
)
def test_training_makes_symbols_as_devices_do(tmp_path, values, symbols):
    """Gaps, too: a device sends a symbol for them, and a belief goes on from that."""
    readings = [5, 12, None, 25, None, 7]
    (tmp_path / "t.csv").write_text('value\n5\n12\n\n25\n""\n7\n')
    study = crr_study(tmp_path, TRAIN.replace("domain = 3", values))
    trained, training = trained_study(study)
    device = Quantizer(choose_crr(study).task)
    assert [device.symbol(reading) for reading in readings] == symbols
    n = study.domain
    assert trained.crr is not None
    assert trained.crr.model == train([symbols], n, 1, Fraction(1, 2))
    assert training is not None
    assert (training.readings, training.gaps, training.gap) == (6, 2, study.missing or 0)
    assert training.seen == tuple(symbols.count(symbol) for symbol in range(n))
    said = f"(2 of them missing and counted as symbol {training.gap}, as a device sends them)"
    assert said in training_line(training)


@pytest.mark.parametrize("memory", [1, 2])
def test_series_of_unequal_length_are_learned_as_from_files_of_their_own(tmp_path, memory):
    def trained(text):
        study, training = trained_study(crr_study(tmp_path, text))
        assert study.crr is not None
        assert training is not None
        return study.crr, training

    anna, bert = [*"01201", "", *"2210"], [*"1002"]
    (tmp_path / "a.csv").write_text("\n".join(anna))
    (tmp_path / "b.csv").write_text("\n".join(bert) + "\n\n")
    short = bert + [""] * (len(anna) - len(bert))
    both = "\n".join(",".join(pair) for pair in zip(anna, short, strict=True))
    (tmp_path / "t.csv").write_text(f"{both}\n,\n")
    text = TRAIN.replace('"crr"', f'"crr-batch"\nblock = 2\nmemory = {memory}')
    two, told = trained(text.replace('"t.csv"', '["a.csv", "b.csv"]'))
    one, of_one = trained(text)
    assert one == replace(two, train=one.train)
    assert of_one == replace(told, files=of_one.files)
    assert (of_one.readings, of_one.gaps) == (14, 1)
    # A gap that is one counts, or the two could not differ.
    (tmp_path / "t.csv").write_text(f"{both}\n,1\n")
    assert trained(text)[0].model != two.model


def test_a_column_without_readings_is_not_trained_on(tmp_path):
    (tmp_path / "t.csv").write_text("anna,bert\n0,\n1,\n")
    with pytest.raises(UserError, match=r"t\.csv: column bert holds no readings; leave it out\.$"):
        trained_study(crr_study(tmp_path, TRAIN))


def test_a_plan_says_what_it_was_trained_on(tmp_path):
    (tmp_path / "a.csv").write_text("anna,bert\n" + "0,1\n" * 12 + "1,\n,1\n")
    (tmp_path / "b.csv").write_text("1\n" * 3)
    text = TRAIN.replace('"t.csv"', '["a.csv", "b.csv"]').replace("domain = 3", "domain = 4")
    planned = plan(write_crr(tmp_path, text))
    content = json.loads(json.dumps(planned.to_json()))["training"]
    assert content == {
        "files": [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")],
        "series": 3,
        "readings": 30,
        "gaps": 1,
        "gap_symbol": 0,
        "transitions": 27,
        "unseen_symbols": [2, 3],
        "rare_rows": [{"after": [2], "seen": 0}, {"after": [3], "seen": 0}],
        "warnings": content["warnings"],
    }
    said = text_plan(planned)
    assert (
        "\nTrained: 2 files, 3 series, 30 readings (1 of them missing and counted as symbol 0, as "
        "a device sends them), 27 transitions from one to the next.\n"
    ) in said
    assert (
        "\nWarning: The training series never show symbols 2 and 3, and show fewer than 10 "
        "transitions after symbols 2 and 3: what the model says of these is mostly smoothing, or "
        "chance.\n"
    ) in said
    assert plan(write_crr(tmp_path)).to_json()["training"] is None


def test_rows_that_were_hardly_seen(tmp_path):
    """Ten are enough; of runs of symbols there may be too many to name."""

    def said(content, text=TRAIN):
        (tmp_path / "t.csv").write_text(content)
        training = trained_study(crr_study(tmp_path, text))[1]
        assert training is not None
        return training_json(training)

    enough = said("0\n" * 11 + "1\n" * 10 + "2\n" * 11)
    assert (enough["rare_rows"], enough["warnings"], enough["gaps"]) == ([], [], 0)
    (row,) = said("0\n" * 11 + "1\n" * 9 + "2\n" * 11)["rare_rows"]
    assert row == {"after": [1], "seen": 9}
    blocks = TRAIN.replace('"crr"', '"crr-batch"\nblock = 2\nmemory = 2')
    found = said("0\n" * 30 + "1\n2\n", blocks)
    assert found["rare_rows"][:2] == [{"after": [0, 1], "seen": 1}, {"after": [0, 2], "seen": 0}]
    assert "fewer than 10 transitions after 8 of the 9 runs of 2 symbols:" in found["warnings"][0]


@pytest.mark.parametrize(
    ("content", "text", "sentence"),
    [
        ("0\n1\n3\n", TRAIN, r"t.csv, line 3: 3 is outside the alphabet 0..2"),
        ("a,b\n0,0\n1,-1\n", TRAIN, r"t.csv, line 3, column b: -1 is outside the alphabet"),
        ("0\nx\n", TRAIN, "'x' is not a whole number"),
        ("", TRAIN, "t.csv is empty"),
        ("1\n", TRAIN, "too short: none has 2 readings in a row"),
        (None, TRAIN, "There is no file .*t.csv"),
        (
            "0\n1\n0\n",
            TRAIN.replace('"t.csv"', '"t.csv"\nsmoothing = 0'),
            "only one symbol, or none, after symbol 0: .* smoothing must be above 0",
        ),
    ],
)
def test_bad_training_gets_one_sentence(tmp_path, content, text, sentence):
    if content is not None:
        (tmp_path / "t.csv").write_text(content)
    with pytest.raises(UserError, match=sentence):
        choose_crr(crr_study(tmp_path, text))


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        ("train = []", "train names no file"),
        ("train = 3", "train must be the name of a file, or a list of them"),
        ('train = ""', "train must be the name of a file, or a list of them"),
        ("train = [3]", "train must be a list of files"),
        ('train = "t.csv"\nsmoothing = -1', "smoothing must lie in 0..1000000, but is -1"),
    ],
)
def test_bad_training_keys_get_one_sentence(tmp_path, new, sentence):
    with pytest.raises(UserError, match=sentence):
        crr_study(tmp_path, TRAIN.replace('train = "t.csv"', new))


def test_a_trained_task_is_of_its_study_without_the_series(tmp_path):
    (tmp_path / "t.csv").write_text("0\n1\n2\n0\n1\n")
    task = choose_crr(crr_study(tmp_path, TRAIN)).task
    (tmp_path / "t.csv").unlink()
    load_study(write_crr(tmp_path, TRAIN)).check(task)
    other = TRAIN.replace('train = "t.csv"', 'train = "t.csv"\nrule = "min_error"')
    with pytest.raises(UserError, match="its rule is preserve, and the study's min_error"):
        crr_study(tmp_path, other).check(task)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        ('"absolute"', "its loss is hamming, and the study's absolute"),
        ("[[0,1,2],[1,0,1],[2,1,0]]", "its loss is hamming, and the study's table"),
    ],
)
def test_what_a_task_differs_in_has_a_name(tmp_path, loss, said):
    task = crr_study(tmp_path).task([1 << 20])
    with pytest.raises(UserError, match=said):
        crr_study(tmp_path, STUDY.replace(PRIOR, f"{PRIOR}\nloss = {loss}")).check(task)


def test_rows_with_memory_are_named_by_their_symbols(tmp_path):
    text = BATCH.replace("block = 2", "block = 2\nmemory = 2").replace("[0.4, 0.6]", "[1, 0, 0, 0]")
    rows = "[[0.9, 0.1], [0.5, 0.5], [0.4, 0.7], [0.3, 0.7]]"
    with pytest.raises(UserError, match="the row of the symbols 1, 0 must sum to 1, but sums to 1"):
        crr_study(tmp_path, text.replace("[[0.9, 0.1], [0.2, 0.8]]", rows))


def test_whole_shares_sum_and_keep_what_is_positive():
    tiny = [Fraction(1), Fraction(1, 10**9), Fraction(0), Fraction(2)]
    found = whole_shares(tiny, ROW_SCALE)
    assert sum(found) == ROW_SCALE
    assert found[1] == 1
    assert found[2] == 0
    with pytest.raises(ValueError, match="no whole shares"):
        whole_shares([Fraction(0)], 5)
    with pytest.raises(ValueError, match="is all"):
        whole_shares([Fraction(1), Fraction(0)], 5, 4)


def test_a_chain_that_leaves_a_state_has_no_long_run():
    assert stationary([8192, 8192, 0, 16384], 2, 1) is None


def test_a_stream_to_play(tmp_path):
    study = crr_study(tmp_path, STUDY + '[stream]\nsource = "recordings"\nseed = 3\n')
    assert (study.source, study.seed) == ("recordings", 3)
    assert crr_study(tmp_path).source is None
    with pytest.raises(UserError, match="source must be"):
        crr_study(tmp_path, STUDY + '[stream]\nsource = "noise"\n')
    with pytest.raises(UserError, match="seed must be 0 or more"):
        crr_study(tmp_path, STUDY + "[stream]\nseed = -3\n")


@pytest.mark.parametrize(
    ("row", "sum_of_it"),
    [("[0.333, 0.333, 0.333]", "0.999"), ("[0.33334, 0.33334, 0.33333]", "1.00001")],
)
def test_rounded_shares_are_taken_in_proportion_and_the_plan_says_so(tmp_path, row, sum_of_it):
    text = STUDY.replace("[0.3, 0.4, 0.3]", row)
    planned = plan(write_crr(tmp_path, text))
    said = f"the row of symbol 1 sums to {sum_of_it}, not to 1"
    assert said in planned.to_json()["crr"]["warnings"][0]
    assert said in text_plan(planned)
    assert sorted(planned.task.transitions[3:6]) == [5461, 5461, 5462]


@pytest.mark.parametrize("row", ["[0.3, 0.4, 0.2995]", "[0.3333, 0.3333, 0.3329]", "[0.5, 0.4, 0]"])
def test_a_slip_is_not_taken_for_a_rounding(tmp_path, row):
    with pytest.raises(UserError, match="the row of symbol 1 must sum to 1, but sums to 0"):
        crr_study(tmp_path, STUDY.replace("[0.3, 0.4, 0.3]", row))


@pytest.mark.parametrize("batch", [False, True])
def test_an_epsilon_above_the_resolution_is_said(tmp_path, batch):
    """9.7041 is the next one above 14 ln 2 = 9.70406 that a study can state."""
    text = BATCH.replace("block = 2", 'block = 2\nrule = "table"') if batch else STUDY
    above, at = (text.replace("epsilon = 1", f"epsilon = {e}") for e in ("9.7041", "9.704"))
    assert plan(write_crr(tmp_path, at)).to_json()["crr"]["warnings"] == []
    said = text_plan(plan(write_crr(tmp_path, above)))
    assert (
        "\nWarning: [privacy] epsilon 9.7041 is above what a threshold of CRR can express: 9.70407"
        " is the largest, and what is planned and certified.\n"
    ) in said
    assert "epsilon       9.70407" in text_certificate(certify(load_task(tmp_path / "crr.task")))


@pytest.mark.parametrize("batch", [False, True])
def test_shares_that_are_changed_are_said_to_be(tmp_path, batch):
    """By more than a rounding to 1/16384: 0.000031 is nearer to 1 of them than to none."""
    text = BATCH.replace("block = 2", 'block = 2\nrule = "table"') if batch else STUDY
    rows, changed, more = (
        ("[[0.9, 0.1], [0.2, 0.8]]", "[0.99998, 0.00002]", "[0.00001, 0.99999]"),
        (ROWS, "[0.99998, 0.00002, 0]", "[0.00001, 0.99998, 0.00001]"),
    )[not batch]
    last = "" if batch else ", [0.2, 0.3, 0.5]"

    def notes(first, second):
        new = text.replace(rows, f"[{first}, {second}{last}]")
        said = plan(write_crr(tmp_path, new)).to_json()["crr"]["warnings"]
        return [note for note in said if note.startswith("[mechanism]")]

    said = "raised to 1/16384, the least above 0 that a Task can state."
    even = "[0.5, 0.5]" if batch else "[0.5, 0.5, 0]"
    assert notes(changed, even) == [
        f"[mechanism] transitions: 2e-05 in the row of symbol 0 was {said}"
    ]
    assert notes(changed, more) == [
        f"[mechanism] transitions: 2e-05 in the row of symbol 0 and {1 if batch else 2} more were "
        f"{said}"
    ]
    assert notes(changed.replace("98", "9690").replace("002", "00310"), even) == []
    # Rounded decimals are told of with a table, too.
    (note,) = notes(even.replace("0.5", "0.5001", 1), even)
    assert note.endswith(
        "sums to 1.0001, not to 1, as its decimals are rounded: it was taken in proportion."
    )


def test_a_table_of_zeros_is_no_loss(tmp_path):
    zeros = "[[0, 0, 0], [0, 0, 0], [0, 0, 0]]"
    with pytest.raises(UserError, match="loss must have a number above 0"):
        crr_study(tmp_path, STUDY.replace(PRIOR, f"{PRIOR}\nloss = {zeros}"))


@pytest.mark.parametrize("play", [simulate, sweep], ids=["simulate", "sweep"])
def test_a_missing_training_file_is_told_with_the_study(tmp_path, play):
    path = write_crr(tmp_path, TRAIN + "[fleet]\ndevices = 5\n")
    with pytest.raises(UserError, match=rf"^{path}: There is no file .*t\.csv"):
        play(path, steps=5)


def test_a_table_that_would_be_simulated_for_days_is_refused(tmp_path):
    """Its steps cost more, the more so the more blocks there are."""
    table = BATCH.replace("block = 2", 'block = 2\nrule = "table"')
    said = "1,000,000,000 devices of 1,000 steps by a table would take more than a day: take "
    with pytest.raises(UserError, match=rf"{said}508,235,294 devices or fewer\.$"):
        simulate(write_crr(tmp_path, table), devices=10**9)
    with pytest.raises(UserError, match="more than a day"):
        sweep(write_crr(tmp_path, table), devices=10**9)
    most = 508_235_294_000
    task = choose_crr(crr_study(tmp_path, table)).task
    check_table(task, most // 1000, 1000)
    with pytest.raises(UserError, match="more than a day"):
        check_table(task, most // 1000 + 1, 1000)
    longer = choose_crr(crr_study(tmp_path, table.replace("block = 2", "block = 5"))).task
    with pytest.raises(UserError, match="take 286,092,715 devices or fewer"):
        check_table(longer, most // 1000, 1000)
    # Other Tasks have a limit of their own.
    check_table(choose_crr(crr_study(tmp_path)).task, 10**9, 1000)


@pytest.mark.parametrize(
    ("devices", "steps", "said"),
    [
        (1, 1 << 24, "16,777,216 steps of 3 values .* take 7,456,540 or fewer"),
        (10**12, 1000, "would take more than a day: take 1,099,511,627 devices or fewer"),
    ],
)
def test_a_simulation_beyond_all_patience_is_refused(tmp_path, devices, steps, said):
    with pytest.raises(UserError, match=said):
        simulate(write_crr(tmp_path), devices=devices, steps=steps)


@pytest.mark.parametrize("rule", ["preserve", "min_error", "blocks", "table"])
def test_device_memory_is_its_tables_and_what_every_mechanism_has(tmp_path, rule):
    """What stays in memory for the mechanism is the same in both lines, the Task's lists too."""
    text = STUDY.replace(PRIOR, f'{PRIOR}\nrule = "{rule}"')
    if rule in ("blocks", "table"):
        named = '"crr-batch"\nblock = 4' + ('\nrule = "table"' if rule == "table" else "")
        text = BATCH.replace('"crr-batch"\nblock = 2', named)
    planned = plan(write_crr(tmp_path, text))
    task, costs = planned.task, planned.crr
    assert costs is not None
    frame = HEAD + put_release(None, 0, bytes(4), 0, bytes(task.payload)) + TAIL
    assert planned.device_bytes == costs.table_bytes + 3 * pool_words(task) + task.outbox * frame
    lists = sum(len(each) for each in (task.prior, task.transitions, task.table or ()))
    assert costs.table_bytes > 4 * lists
    said = text_plan(planned)
    assert f"\nTables: {costs.table_bytes:,} bytes of a board's memory, the model among" in said
    assert (
        f"\nDevice memory: {planned.device_bytes:,} bytes for the mechanism's tables, its random "
        f"words and {task.outbox} frames.\n"
    ) in said


def test_blocks_whose_tables_are_too_large_for_a_board(tmp_path):
    """4,096 bytes where the study names none; what does not fit, and what would."""
    long = BATCH.replace("block = 2", "block = 10")
    with pytest.raises(UserError, match=r"blocks of 10 take 4,\d+ bytes .* 4,096 .* block of 9,"):
        plan(write_crr(tmp_path, long))
    planned = plan(write_crr(tmp_path, BATCH.replace("block = 2", "block = 9")))
    assert planned.crr is not None
    assert planned.crr.table_bytes <= 4096
    assert f"Tables: {planned.crr.table_bytes:,} bytes" in text_plan(planned)
    # Room that is named is what counts, and no sweep asks for any.
    roomy = long + "[fleet]\nboard_memory = 5000\n"
    task = choose_crr(crr_study(tmp_path, roomy)).task
    need = mechanism_bytes(task)
    with pytest.raises(UserError, match=f"or name {need:,} or more in"):
        choose_crr(crr_study(tmp_path, roomy.replace("5000", str(need - 1))))
    choose_crr(crr_study(tmp_path, roomy.replace("5000", str(need))))
    with pytest.raises(UserError, match="no shorter block fits"):
        choose_crr(crr_study(tmp_path, BATCH + "[fleet]\nboard_memory = 50\n"))
    choose_crr(two_states(crr_study(tmp_path, long), Fraction(1, 2), Fraction(1)))
