//! What a name gives away.
//!
//! Read in this order: venue prefix (`CME:`), index, future, perpetual or pair, listed share. What no rule knows is
//! taken for a US share, and the sentence that comes back says so. The tables are what people have in their folders,
//! not what exists.

use super::session::make_session;
use super::{Class, Hints, Instrument, Weekdays};

/// The instrument and a sentence that says why.
pub(super) fn read_symbol(symbol: &str, hints: &Hints) -> (Instrument, String) {
    let upper = symbol.trim().to_ascii_uppercase();
    // A venue prefix: `NASDAQ:AAPL`, but not the settlement coin of `BTC/USDT:USDT`.
    let (venue, name) = match upper.split_once(':') {
        Some((venue, name)) if !name.is_empty() && !venue.contains(['/', '-']) => (venue, name),
        _ => ("", upper.as_str()),
    };
    let word = |list: &[&str]| {
        list.iter().any(|w| venue.eq_ignore_ascii_case(w) || hints.words.iter().any(|h| h.eq_ignore_ascii_case(w)))
    };
    // A stated class decides what an ambiguous name (CL, GOLD, ES) stands for.
    let may = |class: Class| hints.class.is_none_or(|stated| stated == class);

    if may(Class::Index)
        && let Some(found) = read_index(name)
    {
        return found;
    }
    if may(Class::Future)
        && let Some(found) = read_future(venue, name, hints.class == Some(Class::Future), word(&FUTURES_VENUES))
    {
        return found;
    }
    let perp_words = [
        "perp",
        "perpetual",
        "perps",
        "swap",
        "swaps",
        "futures",
        "umfutures",
        "usdm",
        "binanceusdm",
        "um",
        "cm",
        "linear",
    ];
    if let Some(found) = read_pair(name, word(&perp_words)) {
        let fits = match hints.class {
            None | Some(Class::CryptoPerp | Class::CryptoSpot | Class::Fx | Class::Metal | Class::Commodity) => true,
            Some(_) => false,
        };
        if fits {
            return found;
        }
    }
    read_equity(name, word(&["nse", "bse", "india", "nifty", "nifty50"]))
}

/// Stock indices: names, currency, zone, hours of the cash market.
#[rustfmt::skip]
const INDICES: &[(&[&str], &str, &str, &str, &str)] = &[
    (&["SPX", "GSPC", "INX", "SPX500", "US500", "SP500", "SPXUSD", "NDX", "IXIC", "NAS100", "US100", "USTEC", "NSXUSD", "DJI", "DJIA", "US30", "WS30",
       "UDXUSD", "RUT", "US2000", "VIX", "OEX", "NYA"], "USD", "America/New_York", "09:30", "16:00"),
    (&["NSEI", "NIFTY", "NIFTY50", "NSEBANK", "BANKNIFTY", "FINNIFTY", "BSESN", "SENSEX"], "INR", "Asia/Kolkata", "09:15", "15:30"),
    (&["FTSE", "UKX", "UK100", "UKXGBP", "FTMC"], "GBP", "Europe/London", "08:00", "16:30"),
    (&["GDAXI", "DAX", "GER30", "GER40", "DE30", "DE40", "GRXEUR", "STOXX50E", "STOXX50", "EU50", "EUSTX50", "ESTX50", "ETXEUR"],
       "EUR", "Europe/Berlin", "09:00", "17:30"),
    (&["FCHI", "CAC40", "FRA40", "F40", "FRXEUR"], "EUR", "Europe/Paris", "09:00", "17:30"),
    (&["N225", "NKY", "JP225", "JPN225", "JPXJPY", "TOPX"], "JPY", "Asia/Tokyo", "09:00", "15:30"),
    (&["HSI", "HK50", "HKXHKD", "HSCE"], "HKD", "Asia/Hong_Kong", "09:30", "16:00"),
    (&["AXJO", "AUS200", "AU200", "AUXAUD"], "AUD", "Australia/Sydney", "10:00", "16:00"),
    (&["GSPTSE"], "CAD", "America/Toronto", "09:30", "16:00"),
    (&["SSEC", "CSI300", "CN50", "CHINA50"], "CNY", "Asia/Shanghai", "09:30", "15:00"),
    (&["SSMI", "SMI", "SWI20"], "CHF", "Europe/Zurich", "09:00", "17:30"),
    (&["TA35", "TA125"], "ILS", "Asia/Jerusalem", "10:00", "17:15"),
];

fn read_index(name: &str) -> Option<(Instrument, String)> {
    let bare = name.strip_prefix(['^', '.', '$']).unwrap_or(name);
    let core = bare.split(['.', '_', '-']).next().unwrap_or(bare).replace('/', "");
    let known = INDICES.iter().find(|(names, ..)| names.contains(&core.as_str()) || names.contains(&bare));
    let (currency, zone, open, close) = match known {
        // `SMI` and the like are also tickers; a suffix (`SMI.L`) makes them one.
        Some(_) if bare == name && name.contains('.') => return None,
        Some(&(_, currency, zone, open, close)) => (currency, zone, open, close),
        None if name.starts_with('^') => ("USD", "America/New_York", "09:30", "16:00"),
        None => return None,
    };
    let mut instrument = Instrument::preset(Class::Index, currency);
    instrument.session = make_session(zone, open, close, "00:00", false);
    let why = if known.is_some() { "a known index" } else { "an index by its ^" };
    Some((instrument, format!("{name} is {why}: index, {currency}")))
}

/// Futures: roots, multiplier, tick, currency. Prices as the exchange and the usual vendors quote them (grains in
/// cents).
#[rustfmt::skip]
const FUTURES: &[(&str, f64, f64)] = &[
    ("ES", 50.0, 0.25), ("MES", 5.0, 0.25), ("NQ", 20.0, 0.25), ("MNQ", 2.0, 0.25), ("YM", 5.0, 1.0), ("MYM", 0.5, 1.0), ("RTY", 50.0, 0.1),
    ("M2K", 5.0, 0.1), ("NKD", 5.0, 5.0), ("GC", 100.0, 0.1), ("MGC", 10.0, 0.1), ("SI", 5000.0, 0.005), ("SIL", 1000.0, 0.005), ("HG", 25000.0, 0.0005),
    ("PL", 50.0, 0.1), ("PA", 100.0, 0.5), ("CL", 1000.0, 0.01), ("MCL", 100.0, 0.01), ("BZ", 1000.0, 0.01), ("NG", 10000.0, 0.001), ("HO", 42000.0, 0.0001),
    ("RB", 42000.0, 0.0001), ("ZB", 1000.0, 0.03125), ("UB", 1000.0, 0.03125), ("ZN", 1000.0, 0.015625), ("TN", 1000.0, 0.015625), ("ZF", 1000.0, 0.0078125),
    ("ZT", 2000.0, 0.00390625), ("GE", 2500.0, 0.005), ("SR3", 2500.0, 0.005), ("ZQ", 4167.0, 0.0025), ("ZC", 50.0, 0.25), ("ZS", 50.0, 0.25), ("ZW", 50.0, 0.25),
    ("KE", 50.0, 0.25), ("ZO", 50.0, 0.25), ("ZR", 20.0, 0.5), ("ZM", 100.0, 0.1), ("ZL", 600.0, 0.01), ("LE", 400.0, 0.025), ("GF", 500.0, 0.025), ("HE", 400.0, 0.025),
    ("6E", 125000.0, 0.00005), ("M6E", 12500.0, 0.0001), ("6B", 62500.0, 0.0001), ("6J", 12_500_000.0, 0.0000005), ("6A", 100000.0, 0.00005), ("6C", 100000.0, 0.00005),
    ("6S", 125000.0, 0.00005), ("6N", 100000.0, 0.00005), ("6M", 500000.0, 0.00001), ("6L", 100000.0, 0.00005), ("6Z", 500000.0, 0.000025), ("BTC", 5.0, 5.0), ("MBT", 0.1, 5.0),
    ("ETH", 50.0, 0.5), ("MET", 0.1, 0.5), ("DX", 1000.0, 0.005), ("KC", 375.0, 0.05), ("CC", 10.0, 1.0), ("SB", 1120.0, 0.01), ("CT", 500.0, 0.01), ("OJ", 150.0, 0.05),
    ("LBR", 27.5, 0.5), ("VX", 1000.0, 0.05),
];
const FUTURES_VENUES: [&str; 14] = [
    "cme",
    "cme_mini",
    "cbot",
    "cbot_mini",
    "nymex",
    "comex",
    "xcme",
    "xcbt",
    "xnym",
    "glbx",
    "globex",
    "ice",
    "iceus",
    "cfe",
];
const CHINA_VENUES: [&str; 6] = ["CZCE", "SHFE", "DCE", "CFFEX", "INE", "GFEX"];

fn read_future(venue: &str, name: &str, stated: bool, at_venue: bool) -> Option<(Instrument, String)> {
    let (china, rest) = match name.split_once(['_', '.']) {
        Some((first, rest)) if CHINA_VENUES.contains(&first) => (true, rest),
        _ => (CHINA_VENUES.contains(&venue), name),
    };
    if china {
        let mut instrument = Instrument::preset(Class::Future, "CNY");
        // Night trading from 21:00 belongs to the next day.
        instrument.session = make_session("Asia/Shanghai", "21:00", "15:00", "18:00", false);
        return Some((instrument, format!("{name} is a Chinese contract ({rest}): future, CNY")));
    }
    let mut code = name.strip_prefix('/').unwrap_or(name);
    let mut at_venue = at_venue;
    if let Some((first, last)) = code.split_once('.')
        && FUTURES_VENUES.iter().any(|v| last.eq_ignore_ascii_case(v))
    {
        (code, at_venue) = (first, true);
    }
    let known = |root: &str| FUTURES.iter().find(|(name, ..)| *name == root);
    // Continuous: GC=F, 6E1!. Dated: 6EH4, ESZ2024. Bare roots only where a venue or the user says future.
    let continuous = code
        .strip_suffix("=F")
        .or_else(|| code.strip_suffix('!').map(|c| c.trim_end_matches(|d: char| d.is_ascii_digit())));
    let dated = || {
        let root = code.trim_end_matches(|d: char| d.is_ascii_digit());
        let years = code.len() - root.len();
        let root = root.strip_suffix(|m: char| "FGHJKMNQUVXZ".contains(m))?;
        (matches!(years, 1 | 2 | 4) && known(root).is_some()).then_some(root)
    };
    let bare = || ((stated || at_venue) && known(code).is_some()).then_some(code);
    let root = continuous.or_else(dated).or_else(bare)?;
    let mut instrument = Instrument::preset(Class::Future, "USD");
    let why = if let Some(&(_, multiplier, tick)) = known(root) {
        (instrument.multiplier, instrument.tick) = (multiplier, tick);
        format!("{name} is the contract {root}: future, USD, {multiplier} per point")
    } else {
        format!("{name} looks like a future; its multiplier is unknown and assumed to be 1")
    };
    Some((instrument, why))
}

#[rustfmt::skip]
const FIATS: &[&str] = &[
    "USD", "EUR", "JPY", "GBP", "CHF", "AUD", "CAD", "NZD", "SEK", "NOK", "DKK", "SGD", "HKD", "CNH", "CNY", "INR", "MXN", "ZAR", "TRY", "PLN", "HUF",
    "CZK", "ILS", "THB", "KRW", "TWD", "BRL", "RUB", "IDR", "MYR", "PHP", "SAR", "AED", "CLP", "COP", "ARS", "RON", "BGN", "ISK", "UAH", "VND", "NGN",
];
const MAJORS: &[&str] = &["USD", "EUR", "JPY", "GBP", "CHF", "AUD", "CAD", "NZD"];
const METALS: &[(&str, f64, f64)] =
    &[("XAU", 0.01, 2.0), ("XAG", 0.001, 6.0), ("XPT", 0.01, 15.0), ("XPD", 0.01, 30.0)];
/// Commodities that brokers quote: code, tick, spread in bp.
const COMMODITIES: &[(&str, f64, f64)] = &[
    ("XBR", 0.01, 5.0),
    ("XTI", 0.01, 5.0),
    ("WTI", 0.01, 5.0),
    ("BCO", 0.01, 5.0),
    ("XNG", 0.001, 30.0),
    ("XCU", 0.0001, 10.0),
    ("XAL", 0.01, 10.0),
    ("XZN", 0.01, 10.0),
    ("XNI", 0.1, 15.0),
    ("XPB", 0.01, 15.0),
];
/// The other names they have.
#[rustfmt::skip]
const COMMODITY_NAMES: &[(&[&str], &str)] = &[
    (&["USOIL", "OIL", "WTI", "WTICO", "USOUSD", "CRUDEOIL", "CRUDE", "OILUSD", "SPOTCRUDE", "USCRUDE", "USOILROLL", "XTI"], "XTI"),
    (&["UKOIL", "BRENT", "BRENTUSD", "UKOUSD", "BRENTCASH", "SPOTBRENT", "UKBRENT", "UKOILROLL", "XBR"], "XBR"),
    (&["NATGAS", "NGAS", "NATURALGAS", "NATGASUSD", "NGASUSD", "XNG"], "XNG"),
    (&["COPPER", "XCU"], "XCU"),
];
/// The longest first, so that a quote is never taken for the end of a base.
const STABLES: &[&str] = &["FDUSD", "USDT", "USDC", "BUSD", "TUSD", "USDP", "USDE", "EURT", "DAI", "UST", "PAX"];
/// Those that a coin of any name may stand before. Of unknown coins more end in T than are quoted in TUSD, and HYUNDAI
/// and TRUST are shares.
const PLAIN_QUOTES: &[&str] = &["FDUSD", "USDT", "USDC", "BUSD", "USDP", "USDE"];
#[rustfmt::skip]
const COINS: &[&str] = &[
    "BTC", "XBT", "ETH", "BNB", "XRP", "ADA", "SOL", "DOGE", "DOT", "MATIC", "POL", "LTC", "TRX", "AVAX", "LINK", "ATOM", "XMR", "ETC", "BCH", "XLM",
    "ALGO", "VET", "FIL", "ICP", "NEAR", "APT", "ARB", "OP", "SUI", "SEI", "TON", "SHIB", "PEPE", "WIF", "BONK", "AAVE", "UNI", "MKR", "COMP", "SNX",
    "CRV", "SUSHI", "YFI", "GRT", "SAND", "MANA", "AXS", "ENJ", "CHZ", "GALA", "FTM", "EGLD", "THETA", "XTZ", "EOS", "NEO", "IOTA", "DASH", "ZEC", "WAVES",
    "KSM", "RUNE", "KAVA", "ZIL", "QTUM", "BAT", "OMG", "ZRX", "LRC", "INJ", "LDO", "IMX", "STX", "HBAR", "KAS", "TIA", "ORDI", "FET", "RNDR", "WLD", "HYPE", "LUNA",
];

/// Currencies, metals and coins against each other.
fn read_pair(name: &str, perp_words: bool) -> Option<(Instrument, String)> {
    let shown = name;
    // EURUSD=X is a currency; JPY=X alone is dollars in yen.
    let (name, yahoo) = match name.strip_suffix("=X") {
        Some(rest) if rest.len() == 3 => (format!("USD{rest}"), true),
        Some(rest) => (rest.to_string(), true),
        None => (name.to_string(), false),
    };
    let (name, mut perp) = strip_perp(&name);
    let (base, quote) = split_pair(&name, perp)?;
    let fiat = |s: &str| FIATS.contains(&s);
    let coin = |s: &str| COINS.contains(&s) || STABLES.contains(&s);

    if let Some(&(_, tick, spread_bp)) = METALS.iter().find(|(metal, ..)| *metal == base)
        && fiat(&quote)
    {
        let mut instrument = Instrument::preset(Class::Metal, &quote);
        (instrument.tick, instrument.costs.spread_bp) = (tick, spread_bp);
        return Some((instrument, format!("{shown} is {base} in {quote}: metal")));
    }
    if let Some(&(_, tick, spread_bp)) = COMMODITIES.iter().find(|(code, ..)| *code == base)
        && fiat(&quote)
    {
        let mut instrument = Instrument::preset(Class::Commodity, &quote);
        (instrument.tick, instrument.costs.spread_bp) = (tick, spread_bp);
        return Some((instrument, format!("{shown} is {base} in {quote}: commodity")));
    }
    if fiat(&base) && fiat(&quote) && !perp {
        let mut instrument = Instrument::preset(Class::Fx, &quote);
        let majors = [&base, &quote].iter().filter(|c| MAJORS.contains(&c.as_str())).count();
        instrument.costs.spread_bp = match majors {
            2 if base == "USD" || quote == "USD" => 1.0,
            2 => 2.0,
            _ => 8.0,
        };
        return Some((instrument, format!("{shown} is {base} in {quote}: currencies")));
    }
    if yahoo {
        return None;
    }
    let mut why = "a pair of coins";
    if !perp && perp_words {
        (perp, why) = (true, "a pair of coins, and the path speaks of perpetuals");
    }
    let class = if perp { Class::CryptoPerp } else { Class::CryptoSpot };
    let mut instrument = Instrument::preset(class, &quote);
    // Large coins cross one tick of spread; small ones are thin.
    if !matches!(base.as_str(), "BTC" | "XBT" | "ETH") {
        instrument.costs.spread_bp *= if coin(&base) { 2.0 } else { 5.0 };
    }
    if coin(&quote) && !STABLES.contains(&quote.as_str()) {
        // 5 dollars are no smallest order when money is counted in coins.
        instrument.min_notional = if quote == "BTC" || quote == "XBT" { 1e-4 } else { 1e-3 };
    }
    let kind = if perp { "perpetual" } else { "spot" };
    Some((instrument, format!("{shown} is {base} in {quote}, {why}: {kind}")))
}

/// The name without what marks a perpetual, and whether there was such a mark.
fn strip_perp(name: &str) -> (String, bool) {
    // ccxt writes BTC/USDT:USDT, freqtrade's file names BTC_USDT_USDT.
    if let Some((pair, _settle)) = name.split_once(':') {
        return (pair.to_string(), true);
    }
    let parts: Vec<&str> = name.split('_').collect();
    if let [base, quote, settle] = parts[..]
        && (quote == settle || base == settle)
    {
        return (format!("{base}_{quote}"), true);
    }
    for mark in ["-PERPETUAL", "-SWAP", "_SWAP", "-PERP", "_PERP", "/PERP", "PERP", "_UMCBL", ".P"] {
        if let Some(rest) = name.strip_suffix(mark)
            && !rest.is_empty()
        {
            return (rest.to_string(), true);
        }
    }
    if let Some(rest) = name.strip_suffix("USDTM") {
        return (format!("{rest}USDT"), true);
    }
    (name.to_string(), false)
}

/// Base and quote, where the name is a pair at all.
fn split_pair(name: &str, perp: bool) -> Option<(String, String)> {
    let fiat = |s: &str| FIATS.contains(&s);
    let metal = |s: &str| METALS.iter().any(|(m, ..)| *m == s);
    let coin = |s: &str| COINS.contains(&s);
    let stable = |s: &str| STABLES.contains(&s);
    let both = |base: &str, quote: &str| Some((base.to_string(), quote.to_string()));
    let word = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric());

    match name {
        "GOLD" => return both("XAU", "USD"),
        "SILVER" => return both("XAG", "USD"),
        _ => {}
    }
    let goods = |s: &str| {
        let bare = s.split(['.', '#', '+']).next().unwrap_or(s);
        COMMODITY_NAMES.iter().find(|(names, _)| names.contains(&bare)).map(|(_, code)| *code)
    };
    if let Some(code) = goods(name) {
        return both(code, "USD");
    }
    if let Some((base, quote)) = name.split_once(['/', '-', '_'])
        && word(base)
        && word(quote)
    {
        if let Some(code) = goods(base).filter(|_| fiat(quote)) {
            return both(code, quote);
        }
        // Any coin may stand before dollars; BRK-B and BF-A stand before nothing known.
        let money = stable(quote) || quote == "USD" || (coin(quote) && (coin(base) || name.contains('/')));
        let known = (fiat(base) || metal(base) || coin(base) || stable(base)) && (fiat(quote) || coin(quote));
        return if money || known { both(base, quote) } else { None };
    }
    if perp && coin(name) {
        return both(name, "USD"); // BTC-PERP
    }
    // Brokers hang letters behind: EURUSD.A, XAUUSDM, GBPUSD#.
    if let (Some(base), Some(quote)) = (name.get(..3), name.get(3..6)) {
        let tail = &name[6..];
        let broker = tail.is_empty() || tail.starts_with(['.', '#', '+', '-', '_']) || tail == "M";
        let traded = fiat(base) || metal(base) || COMMODITIES.iter().any(|(code, ..)| *code == base);
        if traded && fiat(quote) && broker {
            return both(base, quote);
        }
    }
    // A known coin decides where its name ends: BATUSD is BAT in USD, BTCTUSD is BTC in TUSD.
    for quote in STABLES.iter().chain(FIATS).chain(&["BTC", "ETH", "BNB"]) {
        if let Some(base) = name.strip_suffix(quote)
            && (coin(base) || stable(base))
        {
            return both(base, quote);
        }
    }
    // AUSDT is A in USDT: a base may be one letter.
    for quote in PLAIN_QUOTES {
        if let Some(base) = name.strip_suffix(quote).filter(|base| word(base)) {
            return both(base, quote);
        }
    }
    // No share on a US exchange has six letters; FOOUSD is a coin nobody here knows yet.
    let base = name.strip_suffix("USD").filter(|base| base.len() >= 3 && word(base))?;
    both(base, "USD")
}

/// Whether a name is that of a coin people know, in anything.
pub(super) fn is_coin(symbol: &str) -> bool {
    let (name, perp) = strip_perp(&symbol.trim().to_ascii_uppercase());
    split_pair(&name, perp).is_some_and(|(base, _)| COINS.contains(&base.as_str()) || STABLES.contains(&base.as_str()))
}

type Exchange = (&'static [&'static str], &'static str, &'static str, &'static str, &'static str, f64, f64, f64);

/// Exchanges of listed shares: suffixes, currency, zone, hours, tick, fee of a side in bp (taxes included), spread in
/// bp.
#[rustfmt::skip]
pub(super) const EXCHANGES: &[Exchange] = &[
    // Delivery: 10 bp transaction tax on each side and about 1 bp of charges.
    (&["NS", "BO", "NSE", "BSE"], "INR", "Asia/Kolkata", "09:15", "15:30", 0.05, 11.0, 4.0),
    // Half a percent of stamp duty on purchases, half of it on each side.
    (&["L"], "GBP", "Europe/London", "08:00", "16:30", 0.01, 25.0, 5.0),
    (&["DE", "F"], "EUR", "Europe/Berlin", "09:00", "17:30", 0.01, 2.0, 4.0),
    (&["PA"], "EUR", "Europe/Paris", "09:00", "17:30", 0.01, 2.0, 4.0),
    (&["MI"], "EUR", "Europe/Rome", "09:00", "17:30", 0.01, 2.0, 4.0),
    (&["AS"], "EUR", "Europe/Amsterdam", "09:00", "17:30", 0.01, 2.0, 4.0),
    (&["MC"], "EUR", "Europe/Madrid", "09:00", "17:30", 0.01, 2.0, 4.0),
    (&["BR"], "EUR", "Europe/Brussels", "09:00", "17:30", 0.01, 2.0, 5.0),
    (&["HE"], "EUR", "Europe/Helsinki", "10:00", "18:30", 0.01, 2.0, 5.0),
    (&["SW"], "CHF", "Europe/Zurich", "09:00", "17:30", 0.01, 2.0, 4.0),
    (&["ST"], "SEK", "Europe/Stockholm", "09:00", "17:30", 0.01, 2.0, 5.0),
    (&["OL"], "NOK", "Europe/Oslo", "09:00", "16:20", 0.01, 2.0, 5.0),
    (&["CO"], "DKK", "Europe/Copenhagen", "09:00", "17:00", 0.01, 2.0, 5.0),
    (&["T"], "JPY", "Asia/Tokyo", "09:00", "15:30", 0.1, 0.0, 5.0),
    (&["TO", "V"], "CAD", "America/Toronto", "09:30", "16:00", 0.01, 0.0, 5.0),
    (&["AX"], "AUD", "Australia/Sydney", "10:00", "16:00", 0.001, 5.0, 5.0),
    (&["HK"], "HKD", "Asia/Hong_Kong", "09:30", "16:00", 0.001, 14.0, 5.0),
    (&["SS", "SZ"], "CNY", "Asia/Shanghai", "09:30", "15:00", 0.01, 5.0, 4.0),
    (&["KS", "KQ"], "KRW", "Asia/Seoul", "09:00", "15:30", 1.0, 10.0, 5.0),
    (&["TA"], "ILS", "Asia/Jerusalem", "09:59", "17:15", 0.01, 5.0, 8.0),
    (&["SA"], "BRL", "America/Sao_Paulo", "10:00", "17:00", 0.01, 3.0, 5.0),
];

fn read_equity(name: &str, india: bool) -> (Instrument, String) {
    // Yahoo's RELIANCE.NS; file names turn the dot into a dash (ALPHA-PA), which BRK-B must survive.
    let suffix = name
        .rsplit_once(['.', '-', '_'])
        .map(|(_, suffix)| suffix)
        .filter(|suffix| !matches!(*suffix, "F" | "V") || name.contains('.'));
    let listed = |suffix: &&str| EXCHANGES.iter().any(|(names, ..)| names.contains(suffix));
    // BAJAJ-AUTO has a tail that is no exchange.
    let suffix = suffix.filter(listed).or(india.then_some("NS"));
    let found =
        suffix.and_then(|suffix| EXCHANGES.iter().find(|(names, ..)| names.contains(&suffix)).map(|e| (suffix, e)));
    let Some((suffix, exchange)) = found else {
        let why = format!("{name} matches no other rule: share, USD, New York hours");
        return (Instrument::preset(Class::Equity, "USD"), why);
    };
    let instrument = share_of(exchange);
    let (currency, zone) = (&instrument.currency, &instrument.session.timezone);
    let short = if instrument.shortable { "" } else { ", not to be sold short overnight" };
    let why = format!("{name} is listed as .{suffix}: share, {currency}, hours of {zone}{short}");
    (instrument, why)
}

/// A share of the first exchange in that time zone.
pub(super) fn equity_on(zone: &str) -> Option<Instrument> {
    EXCHANGES.iter().find(|e| e.2 == zone).map(share_of)
}

fn share_of(&(_, currency, zone, open, close, tick, fee_bp, spread_bp): &Exchange) -> Instrument {
    let mut instrument = Instrument::preset(Class::Equity, currency);
    instrument.tick = tick;
    instrument.session = make_session(zone, open, close, "00:00", false);
    (instrument.costs.fee_bp, instrument.costs.maker_bp, instrument.costs.spread_bp) = (fee_bp, fee_bp, spread_bp);
    // Indian delivery shares cannot be sold short overnight; in China hardly at all.
    instrument.shortable = !matches!(currency, "INR" | "CNY");
    if currency == "ILS" {
        instrument.session.days = Weekdays(0b100_1111);
    }
    instrument
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn common_symbol_names_are_recognised() {
        use Class::*;
        for (symbol, class, currency) in [
            ("EURUSD", Fx, "USD"), ("EUR/USD", Fx, "USD"), ("EUR_USD", Fx, "USD"), ("EURUSD=X", Fx, "USD"), ("eurusd", Fx, "USD"),
            ("USDJPY", Fx, "JPY"), ("JPY=X", Fx, "JPY"), ("EURUSDm", Fx, "USD"), ("GBPUSD.a", Fx, "USD"), ("OANDA:EURUSD", Fx, "USD"),
            ("XBRUSD", Commodity, "USD"), ("XTIUSD", Commodity, "USD"), ("WTIUSD", Commodity, "USD"), ("XNGUSD", Commodity, "USD"), ("XCUUSD", Commodity, "USD"),
            ("USOIL", Commodity, "USD"), ("UKOIL", Commodity, "USD"), ("NATGAS", Commodity, "USD"), ("UKOIL.cash", Commodity, "USD"), ("WTICO_USD", Commodity, "USD"),
            ("BCO_USD", Commodity, "USD"), ("BRENT", Commodity, "USD"), ("OANDA:NATGAS_USD", Commodity, "USD"), ("BATUSD", CryptoSpot, "USD"), ("DOTUSD", CryptoSpot, "USD"),
            ("BTCTUSD", CryptoSpot, "TUSD"), ("ANTUSD", CryptoSpot, "USD"), ("GRTBUSD", CryptoSpot, "BUSD"),
            ("JPYUSD", Fx, "USD"), ("XAUUSD", Metal, "USD"), ("XAU_USD", Metal, "USD"), ("XAGEUR", Metal, "EUR"), ("GOLD", Metal, "USD"),
            ("GC=F", Future, "USD"), ("ES=F", Future, "USD"), ("CME:6E1!", Future, "USD"), ("CME_MINI:RTY1!", Future, "USD"),
            ("6EH4", Future, "USD"), ("ESZ2024", Future, "USD"), ("6EH4.XCME", Future, "USD"), ("CZCE_CF", Future, "CNY"), ("CBOT:ZC1!", Future, "USD"),
            ("CFFEX_IH", Future, "CNY"), ("BTCUSDT", CryptoSpot, "USDT"), ("BTC/USDT", CryptoSpot, "USDT"), ("BTC_USDT", CryptoSpot, "USDT"),
            ("BTC-USD", CryptoSpot, "USD"), ("BTCUSD", CryptoSpot, "USD"), ("ETHBTC", CryptoSpot, "BTC"), ("ADA/BTC", CryptoSpot, "BTC"),
            ("AAVEBUSD", CryptoSpot, "BUSD"), ("NEWCOINUSDT", CryptoSpot, "USDT"), ("1INCHUSDT", CryptoSpot, "USDT"), ("BTCEUR", CryptoSpot, "EUR"),
            ("COINBASE:BTC-USD", CryptoSpot, "USD"), ("BTC/USDT:USDT", CryptoPerp, "USDT"), ("BTC-USDT-SWAP", CryptoPerp, "USDT"),
            ("BTCPERP", CryptoPerp, "USD"), ("BTC-PERP", CryptoPerp, "USD"), ("BTCUSDT.P", CryptoPerp, "USDT"), ("BTC_USDT_USDT", CryptoPerp, "USDT"),
            ("BINANCE:ETHUSDT.P", CryptoPerp, "USDT"), ("BTC-PERPETUAL", CryptoPerp, "USD"), ("^NSEI", Index, "INR"), ("NSEI", Index, "INR"), ("SPX", Index, "USD"),
            ("ETXEUR", Index, "EUR"), ("NAS100", Index, "USD"), ("HK50", Index, "HKD"), ("^XYZ", Index, "USD"), ("HSI", Index, "HKD"), ("AAPL", Equity, "USD"),
            ("BRK-B", Equity, "USD"), ("BRK.B", Equity, "USD"), ("BF-A", Equity, "USD"), ("CL", Equity, "USD"), ("ES", Equity, "USD"), ("F", Equity, "USD"),
            ("NASDAQ:TSLA", Equity, "USD"), ("RELIANCE.NS", Equity, "INR"), ("NSE:RELIANCE", Equity, "INR"), ("VOD.L", Equity, "GBP"), ("SAP.DE", Equity, "EUR"),
            ("ALPHA-PA", Equity, "EUR"), ("ENI.MI", Equity, "EUR"), ("4063.T", Equity, "JPY"), ("4063-T", Equity, "JPY"), ("SHOP.TO", Equity, "CAD"),
            ("DEX.AX", Equity, "AUD"), ("0700.HK", Equity, "HKD"), ("MOB-ST", Equity, "SEK"), ("KEN-TA", Equity, "ILS"), ("BPCL", Equity, "USD"), ("", Equity, "USD"),
            ("é", Equity, "USD"), ("ÄÖÜUSD", Equity, "USD"), ("SYN001", Equity, "USD"), ("GOOGL", Equity, "USD"), ("M&M.NS", Equity, "INR"),
        ] {
            let (found, why) = Instrument::guess(symbol, &Hints::default());
            assert_eq!((found.class, found.currency.as_str()), (class, currency), "{symbol}: {why}");
            assert!(!why.is_empty());
        }
    }

    /// Where the base of a name without a separator ends.
    #[test]
    #[rustfmt::skip]
    fn pairs_are_split_at_the_longest_known_quote() {
        for (symbol, base, quote) in [
            ("AUSDT", "A", "USDT"), ("WUSDT", "W", "USDT"), ("TUSDT", "T", "USDT"), ("BUSDT", "B", "USDT"), ("SUSDC", "S", "USDC"), ("WFDUSD", "W", "FDUSD"),
            ("BTCFDUSD", "BTC", "FDUSD"), ("BTCBUSD", "BTC", "BUSD"), ("BTCTUSD", "BTC", "TUSD"), ("BTCUSDC", "BTC", "USDC"), ("BTCUSDP", "BTC", "USDP"),
            ("TUSDUSDT", "TUSD", "USDT"), ("FDUSDUSDT", "FDUSD", "USDT"), ("USDCUSDT", "USDC", "USDT"), ("BUSDUSDT", "BUSD", "USDT"), ("USTUSDT", "UST", "USDT"),
            ("USDTUSD", "USDT", "USD"), ("TUSDUSD", "TUSD", "USD"), ("USDCUSD", "USDC", "USD"), ("DAIUSD", "DAI", "USD"), ("USDTTRY", "USDT", "TRY"),
            ("BATUSD", "BAT", "USD"), ("DOTUSD", "DOT", "USD"), ("ARBUSD", "ARB", "USD"), ("SHIBUSD", "SHIB", "USD"), ("BNBUSD", "BNB", "USD"), ("ANTUSD", "ANT", "USD"),
            ("BATBUSD", "BAT", "BUSD"), ("BNBBUSD", "BNB", "BUSD"), ("FETFDUSD", "FET", "FDUSD"), ("EURUSDT", "EUR", "USDT"), ("1000PEPEUSDT", "1000PEPE", "USDT"),
            ("ETHDAI", "ETH", "DAI"), ("LUNAUST", "LUNA", "UST"), ("PAXGUSDT", "PAXG", "USDT"), ("FOOUSD", "FOO", "USD"),
        ] {
            assert_eq!(split_pair(symbol, false), Some((base.into(), quote.into())), "{symbol}");
        }
        for symbol in ["USDT", "FDUSD", "HYUNDAI", "TRUST", "ROBUST", "AUSD", "AAPL"] {
            assert_eq!(split_pair(symbol, false), None, "{symbol}");
        }
        for (symbol, class) in [("AUSDT", Class::CryptoSpot), ("AUSDT.P", Class::CryptoPerp), ("A_USDT_USDT", Class::CryptoPerp), ("HYUNDAI", Class::Equity)] {
            assert_eq!(Instrument::guess(symbol, &Hints::default()).0.class, class, "{symbol}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn odd_symbol_names_do_not_panic() {
        for name in ["=X", "=F", "!", "1!", ":", "a:", ":a", "-", "/", "_", "__", "^", ".", "PERP", "-SWAP", "USDT", "USD", "USDTM", "€UR/USD", "ab€cd", "EURUS€", "日本", "/ES", "H4", "F4"] {
            for class in [None, Some(Class::Future), Some(Class::Fx), Some(Class::Index), Some(Class::CryptoPerp)] {
                Instrument::guess(name, &Hints { class, ..Hints::default() });
            }
        }
    }
}
