"""The judge's figures of returns beside empyrical, skfolio, scipy and numpy.

Usage: performance.py PATH_OF_FULLBORE [PART_OF_A_CASE_NAME]. Run by `cargo xtask test`, which builds `fullbore-bench`
beside `fullbore`; `fullbore-bench statistics` computes all cases in one run.

| figure | by |
| --- | --- |
| total return, CAGR, volatility, Sharpe (√q), Sortino, drawdown, Calmar, beta, alpha, information ratio | empyrical |
| skewness, kurtosis, probability of the ratio, days needed, Wilson interval | scipy |
| Lo's correction, standard error, days of the drawdown, round trips | numpy, as docs/method.md writes them |
| deflated ratio | scipy's normal distribution, and the golden values of docs/method.md |
| probability of the ratio, drawdown, skewness, kurtosis, deflated ratio | skfolio as well, with which the others must agree |
| probability of overfitting | numpy over all 12,870 halves, day by day, ranks by scipy |

A figure is right within 1e-9 of itself (1e-12 at 0). One that does not exist must be null here and not finite, or
without meaning by its definition, there. empyrical compounds alpha over a year and this project does not, so a day's
alpha is compared.
"""

import json
import math
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path

import empyrical
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from scipy import stats
from skfolio import measures

TOLERANCE = 1e-9


def agreed(one, skfolio):
    """A reference's figure, which skfolio's must equal where it has one."""
    assert not math.isfinite(skfolio) or math.isclose(one, skfolio, rel_tol=TOLERANCE, abs_tol=1e-12), f"{one}, by skfolio {skfolio}"
    return one


# ---------------------------------------------------------------- track records


def walk(seed, n, mean=0.0004, deviation=0.01, tail=None, follow=0.0, traded=1.0):
    """Returns with fat tails (Student's t), correlated by `follow`, and 0 on the days without a trade."""
    draw = np.random.default_rng(seed)
    noise = draw.standard_t(tail, n) if tail else draw.normal(size=n)
    for i in range(1, n):
        noise[i] += follow * noise[i - 1]
    return np.where(draw.random(n) < traded, mean + deviation * noise, 0.0)


def record(returns, q=252.0, seed=0, **more):
    draw = np.random.default_rng(seed)
    benchmark = 0.0002 + 0.4 * np.asarray(returns) + draw.normal(0, 0.008, len(returns))
    trips = np.round(draw.standard_t(3, 5 + seed % 90) * 100, 2)
    return {"returns": list(returns), "days_per_year": q, "benchmark": list(benchmark), "round_trips": list(trips), **more}


def sp500():
    """Six years of one share and of the mean of all, or None without the data."""
    path = Path(__file__).parents[2] / "shared/data/bars/sp500_daily_2010_2017.parquet"
    if not path.exists():
        return None
    table = pq.read_table(path, columns=["symbol", "ts", "adj_close"]).to_pandas()
    close = table.assign(symbol=table["symbol"].astype(str)).pivot(index="ts", columns="symbol", values="adj_close").astype("f8")
    returns = (close / close.shift() - 1).iloc[1:1501]
    returns = returns.loc[:, returns.notna().all()]
    return {"returns": list(returns["AAPL"]), "days_per_year": 252.0, "benchmark": list(returns.mean(axis=1)), "round_trips": [1.0]}


RECORDS = {
    "five years": lambda: record(walk(1, 1250)),
    "crypto, 365 days": lambda: record(walk(2, 900, 0.001, 0.04), 365.25, 2),
    "fat tails": lambda: record(walk(3, 600, tail=3), 252.0, 3),
    "days follow each other": lambda: record(walk(4, 1500, follow=0.3), 260.9, 4),
    "days swing back": lambda: record(walk(5, 1500, follow=-0.3), 252.0, 5),
    "seldom traded": lambda: record(walk(6, 800, 0.002, 0.02, traded=0.1), 252.0, 6),
    "losing": lambda: record(walk(7, 500, -0.002), 252.0, 7),
    "a crash at the end": lambda: record([*walk(8, 400, 0.001), -0.6], 252.0, 8),
    "a crash at the start": lambda: record([-0.6, *walk(9, 400, 0.002)], 252.0, 9),
    "risk-free and minimum return": lambda: record(walk(10, 700), 252.0, 10, risk_free=0.0001, minimum_return=0.0003),
    "a month": lambda: record(walk(11, 21), 252.0, 11),
    "two days": lambda: record([0.01, -0.02], 252.0, 12),
    "three days up": lambda: record([0.01, 0.02, 0.005], 252.0, 13),
    "tiny returns": lambda: record(walk(14, 300, 4e-8, 1e-6), 252.0, 14),
    "wild returns": lambda: record(np.abs(walk(15, 60, 0.0, 2.0)) - 0.3, 252.0, 15),
    "weekly": lambda: record(walk(16, 300, 0.002, 0.02), 52.18, 16),
    "AAPL, real": sp500,
}


def lo(excess, q):
    """The ratio of a day, its error, and what turns it into that of a year."""
    n = len(excess)
    ratio = excess.mean() / excess.std(ddof=1)
    error = math.sqrt((1 - stats.skew(excess) * ratio + (stats.kurtosis(excess, fisher=False) - 1) / 4 * ratio**2) / (n - 1))
    centred = excess - excess.mean()
    lags = min(int(4 * (n / 100) ** (2 / 9)), n - 1)
    rho = np.correlate(centred, centred, "full")[n : n + lags] / (centred @ centred)
    year = q + 2 * sum((q - k) * r for k, r in enumerate(rho, 1) if k < q)
    return ratio, error, q / math.sqrt(year) if year > 0 else math.nan


def drawdown(returns):
    equity = np.concatenate([[1.0], np.cumprod(1 + returns)])
    peaks = np.maximum.accumulate(equity)
    low = int(np.argmax(1 - equity / peaks))
    under = equity < peaks
    if not under.any():
        return {"peak_day": 0, "trough_day": 0, "recovery_day": None, "duration_days": 0, "longest_days": 0}
    # The last day at the height of the peak, and the first at or above it after the low.
    peak = max(i for i in range(low) if equity[i] == peaks[low])
    back = [i for i in range(low, len(equity)) if equity[i] >= peaks[low]]
    spells, last = [], 0
    for i in range(len(equity)):
        if under[i]:
            spells.append(i - last)
        elif i and under[i - 1]:
            spells.append(i - last)
            last = i
        else:
            last = i
    end = back[0] if back else len(returns)
    return {
        "peak_day": peak, "trough_day": low, "recovery_day": back[0] if back else None, "duration_days": end - peak, "longest_days": max(spells),
    }


def expect_record(case):
    returns, benchmark = np.array(case["returns"]), np.array(case["benchmark"])
    q, free, least = case["days_per_year"], case.get("risk_free", 0.0), case.get("minimum_return", 0.0)
    r, b = pd.Series(returns), pd.Series(benchmark)
    year = {"annualization": q}
    ratio, error, factor = lo(returns - free, q)
    trips = np.array(case["round_trips"])
    won, lost = trips[trips > 0], trips[trips < 0]
    wilson = stats.binomtest(len(won), len(trips)).proportion_ci(0.95, "wilson")
    alpha, beta = empyrical.alpha_beta(r, b, risk_free=free, **year)
    z = stats.norm.ppf(0.95) / ratio
    depth = measures.max_drawdown(measures.get_drawdowns(np.concatenate([[0.0], returns]), compounded=True))
    figures = {
        "days": len(returns),
        "total_return": empyrical.cum_returns_final(r),
        "cagr": empyrical.cagr(r, **year),
        "volatility_annual": empyrical.annual_volatility(r, **year),
        "sharpe_daily": ratio,
        "sharpe_daily_error": error,
        "sharpe_annual": ratio * factor,
        "sharpe_annual_error": max(error, 1 / math.sqrt(len(r) - 1)) * factor,
        "sharpe_annual_uncorrected": empyrical.sharpe_ratio(r, risk_free=free, **year),
        "sharpe_probability": agreed(stats.norm.cdf(ratio / error), measures.probabilistic_sharpe_ratio(returns, risk_free_rate=free)),
        "minimum_track_days": math.ceil(1 + error**2 * (len(r) - 1) * z**2) if ratio > 0 else None,
        "sortino_annual": empyrical.sortino_ratio(r, required_return=least, **year),
        "calmar": empyrical.calmar_ratio(r, **year),
        "skewness": agreed(stats.skew(returns), measures.skew(returns)),
        "kurtosis": agreed(stats.kurtosis(returns, fisher=False), measures.kurtosis(returns)),
        "drawdown": {"depth": agreed(-empyrical.max_drawdown(r), depth), **drawdown(returns)},
        "benchmark": {
            "total_return": empyrical.cum_returns_final(b),
            "beta": beta,
            "alpha_annual": q * math.expm1(math.log1p(alpha) / q),
            "information_ratio_annual": math.sqrt(q) * empyrical.excess_sharpe(r, b),
        },
        "round_trips": {
            "count": len(trips),
            "hit_rate": len(won) / len(trips),
            "hit_rate_low": wilson.low,
            "hit_rate_high": wilson.high,
            "payoff_ratio": won.mean() / -lost.mean() if len(won) and len(lost) else None,
            "profit_factor": won.sum() / -lost.sum() if len(lost) else None,
        },
    }
    return figures


# ---------------------------------------------------------------- many trials


def family(seed, trials, given, days, common, sharpe=0.1, skewness=0.0, kurtosis=3.0):
    """`given` of `trials` have returns, which share a part of their movement."""
    draw = np.random.default_rng(seed)
    market = draw.normal(size=days)
    returns = [0.0003 + 0.01 * (common * market + (1 - common) * draw.normal(size=days)) for _ in range(given)]
    return {
        "sharpe": sharpe, "skewness": skewness, "kurtosis": kurtosis, "days": days, "trials": trials,
        "sharpes": [r.mean() / r.std(ddof=1) for r in returns], "returns": [list(r) for r in returns],
    }


TRIALS = {
    "a hundred, independent": lambda: family(1, 100, 100, 500, 0.0),
    "fifty, alike": lambda: family(2, 50, 50, 700, 0.6, skewness=-1.5, kurtosis=8.0),
    "half of them crashed": lambda: family(3, 40, 20, 500, 0.3),
    "few": lambda: family(4, 5, 5, 300, 0.9),
    "two without returns": lambda: family(5, 2, 0, 300, 0.0),
    "one": lambda: family(6, 1, 1, 300, 0.0),
    "100,000": lambda: family(7, 100_000, 12, 1250, 0.0, 2.5 / math.sqrt(250), -3.0, 10.0),
}


def expected_maximum(n):
    return 0.0 if n == 1 else (1 - np.euler_gamma) * stats.norm.isf(1 / n) + np.euler_gamma * stats.norm.isf(1 / (n * math.e))


def expect_trials(case):
    ratio, days, trials = case["sharpe"], case["days"], case["trials"]
    factor = 1 - case["skewness"] * ratio + (case["kurtosis"] - 1) / 4 * ratio**2
    given = len(case["sharpes"])
    rho = None
    if given > 1:
        table = np.corrcoef(np.array(case["returns"]))
        rho = table[np.triu_indices(given, 1)].mean()
    effective = min(max(math.ceil((rho or 0.0) + (1 - (rho or 0.0)) * trials), 1), trials)
    variance = np.var(case["sharpes"], ddof=1) if given > 1 else 0.0
    variance = max(variance, 1 / days) if given < 10 else variance
    deviation = math.sqrt(variance)
    chance = [agreed(deviation * expected_maximum(n), measures.expected_max_sharpe_ratio(n, deviation)) for n in (effective, trials)]
    sure = [stats.norm.cdf((ratio - x) * math.sqrt(days - 1) / math.sqrt(factor)) for x in chance]
    return {
        "correlation": rho,
        "minimum_days": math.ceil(1 + factor * (stats.norm.ppf(0.95) / ratio) ** 2),
        "deflated": {
            "trials": trials, "effective_trials": effective, "sharpe_variance": variance if trials > 1 else None, "chance_sharpe_daily": chance[0],
            "probability": sure[0], "chance_sharpe_daily_all": chance[1], "probability_all": sure[1],
        },
    }


def golden():
    """The reference itself gives the values that docs/method.md prints."""
    for n, most in [(10, 1.5746), (100, 2.5306), (1000, 3.2551), (10_000, 3.8607)]:
        assert abs(expected_maximum(n) - most) < 5e-5, f"expected maximum of {n}"
    for n, skewness, kurtosis, probability in [(100, -3, 10, 0.9004), (46, -3, 10, 0.9505), (88, 0, 3, 0.9505)]:
        ratio = 2.5 / math.sqrt(250)
        z = (ratio - math.sqrt(0.5 / 250) * expected_maximum(n)) * math.sqrt(1249)
        found = stats.norm.cdf(z / math.sqrt(1 - skewness * ratio + (kurtosis - 1) / 4 * ratio**2))
        assert abs(found - probability) < 5e-5, f"deflated ratio of {n} trials: {found}"


# ---------------------------------------------------------------- overfitting


def configs(seed, n, days, edge=0.0, copies=0, flat=0):
    draw = np.random.default_rng(seed)
    returns = draw.normal(0, 0.01, (n, days))
    returns[n // 2] += edge * 0.01
    returns = np.vstack([returns, *[returns[n // 2 : n // 2 + 1]] * copies, *[np.zeros((1, days))] * flat])
    return [list(r) for r in returns]


CHOICES = {
    "noise": lambda: configs(1, 12, 320),
    "one has skill": lambda: configs(2, 15, 640, 0.2),
    "the first days are dropped": lambda: configs(3, 10, 175),
    "one day a block": lambda: configs(4, 20, 16),
    "equals and idle ones": lambda: configs(5, 9, 200, copies=3, flat=2),
    "idle ones are best": lambda: [list(np.array(c) - (0.003 if any(c) else 0)) for c in configs(6, 9, 160, flat=4)],
    "the middle rank of eleven": lambda: configs(9, 11, 176),
    "ten of twelve are equal": lambda: configs(10, 3, 176, 0.3, copies=9),
    "nine are too few": lambda: configs(7, 9, 320),
    "fifteen days are too few": lambda: configs(8, 12, 15),
}


def expect_choice(case):
    matrix = np.array(case).T  # [days, configs]
    days, n = matrix.shape
    if n < 10 or days < 16:
        return None
    blocks = np.split(matrix[days % 16 :], 16)

    def ratios(chosen):
        rows = np.concatenate([blocks[i] for i in chosen])
        deviation = rows.std(axis=0, ddof=1)
        return np.divide(rows.mean(axis=0), deviation, out=np.zeros(n), where=deviation > 1e-12)

    halves = {half: ratios(half) for half in combinations(range(16), 8)}
    found = []
    for half, inside in halves.items():
        outside = halves[tuple(i for i in range(16) if i not in half)]
        best = int(np.argmax(inside))
        omega = stats.rankdata(outside)[best] / (n + 1)
        found.append((inside[best], outside[best], math.log(omega / (1 - omega))))
    inside, outside, logit = np.array(found).T
    assert len(logit) == 12_870
    return {
        "configs": n, "days": days - days % 16, "probability": float((logit <= 0).mean()),
        "slope": float(np.polyfit(inside, outside, 1)[0]), "loss_probability": float((outside < 0).mean()),
    }


# ---------------------------------------------------------------- asking and comparing


def compare(found, expected, where):
    """How many figures were compared."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), f"{where} is {found!r}"
        return sum(compare(found.get(key), value, f"{where}.{key}") for key, value in expected.items())
    missing = expected is None or not math.isfinite(expected)
    assert (found is None) == missing, f"{where} is {found!r}, expected {expected!r}"
    if not missing:
        assert isinstance(found, (int, float)), f"{where} is {found!r}"
        assert abs(found - expected) <= TOLERANCE * max(abs(expected), 1e-3), f"{where} is {found!r}, expected {expected!r}"
    return 1


def main():
    fullbore = Path(sys.argv[1]).resolve()
    program = fullbore.with_name("fullbore-bench" + fullbore.suffix)
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    golden()
    passed, failed, skipped = 0, 0, 0
    lists = {"records": (RECORDS, expect_record), "trials": (TRIALS, expect_trials), "choices": (CHOICES, expect_choice)}
    cases = {}
    for key, (makers, _) in lists.items():
        made = {name: make() for name, make in makers.items() if part in f"{key}, {name}"}
        for name in [name for name, case in made.items() if case is None]:
            print(f"SKIP: ../shared/data is missing ({name})")
            skipped += 1
            del made[name]
        cases[key] = made
    with tempfile.TemporaryDirectory(prefix="fullbore-oracle-") as folder:
        asked = Path(folder) / "cases.json"
        asked.write_text(json.dumps({key: list(made.values()) for key, made in cases.items()}))
        done = subprocess.run([program, "statistics", asked], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"fullbore-bench statistics ended with {done.returncode}: {done.stderr}"
    answer = json.loads(done.stdout)
    for key, (_, expect) in lists.items():
        figures, good = 0, passed
        assert len(answer[key]) == len(cases[key])
        for found, (name, case) in zip(answer[key], cases[key].items()):
            try:
                figures += compare(found, expect(case), name)
                passed += 1
            except AssertionError as why:
                print(f"FAILED  {key}: {why}", flush=True)
                failed += 1
        verdict = "ok    " if passed - good == len(cases[key]) else "FAILED"
        print(f"{verdict}  {key}: {passed - good} of {len(cases[key])} cases, {figures} figures", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
