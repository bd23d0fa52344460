//! `account::step` over trajectories that another program made: `oracles/account.py` writes them and compares.
//!
//! Both files are little-endian doubles. The one that is read has, for each account, the number of its steps, the
//! fields of `Params` in order, its first bar, and for each step target, stop and limit of the action and the bar that
//! follows. The one that is written has 27 numbers a step: the account after it and its outcome.

use account::{Account, Action, Bar, Event, Fill, Flows, Outcome, Params, step};
use serde_json::{Value, json};
use std::path::Path;

/// Steps every account in the file to its end.
pub(crate) fn run(cases: &Path, out: &Path) -> Result<Value, String> {
    let bytes = std::fs::read(cases).map_err(|e| format!("{}: {e}", cases.display()))?;
    let mut numbers = bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b));
    let (mut rows, mut n_accounts, mut n_steps) = (Vec::new(), 0, 0);
    while let Some(steps) = numbers.next() {
        let mut next = || numbers.next().ok_or_else(|| format!("{} ends inside an account", cases.display()));
        let params = read_params(&mut next)?;
        let mut account = Account::new(&params);
        let mut now = read_bar(&mut next)?;
        for _ in 0..steps as usize {
            let action = Action { target: next()?, stop: next()?, limit: next()? };
            let bar = read_bar(&mut next)?;
            let outcome = step(&params, &mut account, action, &now, &bar);
            rows.extend(row(&account, &outcome));
            now = bar;
            n_steps += 1;
        }
        n_accounts += 1;
    }
    let written: Vec<u8> = rows.iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(out, written).map_err(|e| format!("{}: {e}", out.display()))?;
    Ok(json!({ "accounts": n_accounts, "steps": n_steps }))
}

fn read_params(next: &mut impl FnMut() -> Result<f64, String>) -> Result<Params, String> {
    Ok(Params {
        capital: next()?,
        fraction: next()?,
        vol_target: next()?,
        lots: next()?,
        leverage: next()?,
        maintenance: next()?,
        liquidation: next()?,
        shortable: next()? != 0.0,
        owned: next()? != 0.0,
        band: next()?,
        band_of_target: next()? != 0.0,
        multiplier: next()?,
        lot: next()?,
        tick: next()?,
        min_notional: next()?,
        fee: next()?,
        fee_per_unit: next()?,
        spread: next()?,
        impact: next()?,
        volume_cap: next()?,
        borrow: next()?,
        swap_long: next()?,
        swap_short: next()?,
    })
}

fn read_bar(next: &mut impl FnMut() -> Result<f64, String>) -> Result<Bar, String> {
    Ok(Bar {
        open: next()?,
        high: next()?,
        low: next()?,
        close: next()?,
        fx_open: next()?,
        fx_close: next()?,
        tradable: next()?,
        split: next()?,
        dividend: next()?,
        funding_open: next()?,
        funding_inside: next()?,
        swap_open: next()?,
        swap_inside: next()?,
        borrow_open: next()?,
        borrow_inside: next()?,
        close_out: next()?,
        sigma: next()?,
        volume: next()?,
        half_spread: next()?,
        flat_next: next()?,
    })
}

fn row(account: &Account, outcome: &Outcome) -> Vec<f64> {
    let Account { equity, peak, quantity, target, action, entry, bars_held, stop, limit, .. } = *account;
    let Flows { fee, spread, impact, swap, borrow, funding, dividend, traded, closed } = account.flows;
    let [filled, left] = [outcome.fill, outcome.exit].map(|Fill { quantity, price, cost }| [quantity, price, cost]);
    let all = [Event::MarginCall, Event::Liquidated, Event::Stopped, Event::Limited, Event::ClosedOut, Event::Ruined];
    let events = all.into_iter().filter(|e| outcome.events.contains(*e)).map(|e| f64::from(e as u8)).sum();
    let terminated = f64::from(u8::from(account.terminated));
    let held = [equity, peak, quantity, target, action, entry, bars_held, stop, limit, terminated];
    let flows = [fee, spread, impact, swap, borrow, funding, dividend, traded, closed];
    let step =
        [outcome.reward, outcome.equity_open, filled[0], filled[1], filled[2], left[0], left[1], left[2], events];
    [&held[..], &flows, &step].concat()
}
