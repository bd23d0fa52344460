//! The honest mode on a card: from all roots of any number of nets and models in one search.
//!
//! Small nets (packed as `packed.rs` says) search in one launch: a block owns a few roots from the first draw to the
//! outcome, and takes the next ones when it is done. Other nets go through `Nets`: graphs of one kernel and one pass
//! for the roots, their scenarios and each simulation. Roots go to the card in one piece, and what was found comes back
//! in one.
//!
//! Draws, accounts and trees have the bits of the processor; nets compute in bf16. What an account is shown is
//! `account::shown`, and the model is the [`Bootstrap`](crate::Bootstrap). **A model's rows end where its training
//! ends**: a row behind the last is the last, is noted, and makes the search an error.
//!
//! Left out: several simulations of a root in flight; a card has enough roots.

mod memory;
mod models;
mod rounds;

pub use models::{HonestModel, HonestModels};

use super::arguments::{Honest, HonestSmall, Pack};
use super::packed::Shape;
use super::{BORDER, THREADS, counted};
use crate::market::{InfoSet, legal};
use crate::outcome::{Outcomes, kept};
use crate::run::{Root, gumbels_of};
use crate::settings::{Mode, RootRule, Settings};
use crate::world::root_path;
use account::{Account, Bar, Params, SHOWN};
use compute::cuda::{Array, Context, Grid, Image, Kernel, Module, Stream};
use compute::nets::{MemberSetup, Nets, Setup};
use compute::population::{Pins, Precision};
use compute::{Budget, Error, Net, Opened, Result, Tables, image};
use memory::{Extent, arrays, most_each, roots_bytes, shared_of, wide_per};
use models::logarithm;
use rounds::{PlainNet, Rounds, Wide, heads_bytes};
use std::sync::Arc;

static HONEST: Image = image!("honest");

/// As `honest.cuh` and `honest.cu` have them.
const ACTIONS: usize = 3;
const STATE: usize = 12;
const ROOT_NUMBERS: usize = Params::NUMBERS + Bar::NUMBERS + STATE;
const ROOT_FLOATS: usize = 11;
const ROOT_WORDS: usize = 6;
const FOUND: usize = 14;
const MOST_ROWS: usize = 64;
const MOST_EACH: usize = 8;
/// Decisions and markets of a tree: an index is half a word, and one value of it means none.
const MOST_NODES: usize = 0xffff;

/// A root with the model and the net that it is searched by.
#[derive(Debug, Clone, Copy)]
pub struct HonestRoot<'a> {
    /// What is known, and its counter.
    pub root: &'a Root<InfoSet>,
    /// Which of the models.
    pub model: usize,
    /// Which of the nets.
    pub net: usize,
    /// What is added to the net's logits of the root.
    pub prior: [f32; ACTIONS],
}

/// A search on a card with its memory, which is taken once.
pub struct HonestSearch {
    models: Arc<HonestModels>,
    stream: Stream,
    settings: Settings,
    /// Arrays for as many roots as go at once; how many a launch has is set when it is made.
    search: Honest,
    way: Way,
    nets: usize,
    /// Roots that go at once.
    most: usize,
    bytes: u64,
}

enum Way {
    Small(Box<Small>),
    Wide(Box<Wide>),
    /// One net without layers, in f32: for comparisons.
    Plain(Box<PlainNet>),
}

struct Small {
    pack: (Kernel<Pack>, Pack),
    params: Array<f32>,
    kernel: Kernel<HonestSmall>,
    given: HonestSmall,
    shared: u32,
    blocks: usize,
    most_each: usize,
}

/// What is wrong with settings on a card, if anything.
fn check(settings: &Settings) -> Result<()> {
    settings.check(ACTIONS)?;
    let invalid = |message: String| Err(Error::Invalid(message));
    match settings.mode {
        Mode::Honest { in_flight: 1 } => {}
        Mode::Honest { in_flight } => {
            return invalid(format!("{in_flight} simulations of a root in flight; a card has one, and many roots"));
        }
        Mode::Reference => return invalid("the reference mode is another search on a card".into()),
    }
    let nodes = 1 + ACTIONS * settings.scenarios + settings.simulations as usize * settings.codes;
    if nodes >= MOST_NODES || settings.simulations as usize + ACTIONS >= MOST_NODES {
        return invalid(format!(
            "a tree of {nodes} decisions; one on a card has at most {MOST_NODES}, so give fewer simulations, codes or \
             scenarios"
        ));
    }
    Ok(())
}

impl HonestSearch {
    /// Bytes of a search from so many roots at once, without models: trees, roots, and nets with all that their passes
    /// take.
    ///
    /// # Errors
    ///
    /// Where a setting or the net makes no sense.
    pub fn need(
        context: &Arc<Context>,
        net: &Net,
        nets: usize,
        features: usize,
        settings: &Settings,
        roots: usize,
    ) -> Result<u64> {
        check(settings)?;
        let net = dense(net);
        let extent = Extent::of(settings);
        let own = roots_bytes(features, roots) + ((ACTIONS + 1) * settings.simulations as usize * 4) as u64;
        Ok(own
            + 24 * BORDER
            + match packed_shape(context, &net)? {
                Some(shape) => {
                    let (each, blocks) = (most_each(settings), context.gpu().multiprocessors as usize);
                    let params = compute::net::Layout::new(&net)?.params;
                    let of_nets = nets as u64 * (shape.bytes() + 4 * params as u64);
                    (each * blocks) as u64 * extent.bytes() + of_nets
                }
                None => {
                    let per = wide_per(settings, nets, roots);
                    let inputs = features + SHOWN;
                    let of_roots = extent.bytes() + (4 * extent.rows * (inputs + ACTIONS + 1) + 8) as u64;
                    let (setup, members) = wide_setup(settings, nets, per);
                    let of_nets = Nets::need(&Opened::Cuda(Arc::clone(context)), &net, &setup, &members)?;
                    (per * nets) as u64 * (of_roots + heads_bytes(settings)) + of_nets
                }
            })
    }

    /// A search by `nets` nets of one shape, whose parameters are still to be set; `roots` go at once, and more in
    /// several goes. The net's inputs are as for [`NetEvaluator`](crate::NetEvaluator): a row's observation, then what
    /// an account is shown. Rewards count `discount` for every bar that they come later.
    ///
    /// # Errors
    ///
    /// Where models, net or settings make no sense together, or the memory is not enough.
    pub fn new(
        models: &Arc<HonestModels>,
        net: &Net,
        nets: usize,
        settings: &Settings,
        discount: f32,
        roots: usize,
    ) -> Result<HonestSearch> {
        check(settings)?;
        let net = dense(net);
        let features = models.models.features as usize;
        if net.extras() != features + SHOWN || net.heads.first().is_none_or(|head| head.classes != ACTIONS) {
            return Err(Error::Invalid(format!(
                "a net of {} inputs; the models show {features} features, and accounts {SHOWN} numbers of themselves, and \
                 have {ACTIONS} actions",
                net.extras()
            )));
        }
        let (nets, context) = (nets.max(1), &models.context);
        let params = compute::net::Layout::new(&net)?.params;
        let Some(shape) = packed_shape(context, &net)? else {
            return HonestSearch::wide(models, &net, nets, settings, discount, roots);
        };
        let (each, blocks) = (most_each(settings), context.gpu().multiprocessors as usize);
        let extent = Extent::of(settings);
        let bytes = HonestSearch::need(context, &net, nets, features, settings, roots)?;
        let mut slab = context.slab(bytes)?;
        let stream = Stream::new(context)?;
        let search = arrays(models, &mut slab, &stream, settings, discount, roots, each * blocks)?;
        let params = slab.array(nets * params)?;
        let (net, pack) = shape.arrays(&mut slab, &stream, &params, nets)?;
        let weights_inside = shared_of(&shape, true) <= context.gpu().shared as usize;
        let shared = shared_of(&shape, weights_inside);
        let given = HonestSmall {
            search: search.clone(),
            net,
            groups: slab.array(2 * roots)?,
            own: slab.array(each * blocks * extent.rows * SHOWN)?,
            words: counted(shape.words)?,
            biases: counted(shape.biases())?,
            each: each as u32,
            weights_inside: u32::from(weights_inside),
        };
        let module = Module::load(context, &HONEST)?;
        let kernel: Kernel<HonestSmall> = module.kernel("honest_small")?;
        kernel.allow_shared(counted(shared)?)?;
        let pack = (module.kernel("pack_honest")?, pack);
        let small = Small { pack, params, kernel, given, shared: shared as u32, blocks, most_each: each };
        let (models, settings) = (Arc::clone(models), settings.clone());
        Ok(HonestSearch {
            models,
            stream,
            settings,
            search,
            way: Way::Small(Box::new(small)),
            nets,
            most: roots,
            bytes,
        })
    }

    fn wide(
        models: &Arc<HonestModels>,
        net: &Net,
        nets: usize,
        settings: &Settings,
        discount: f32,
        roots: usize,
    ) -> Result<HonestSearch> {
        let per = wide_per(settings, nets, roots);
        let bytes = HonestSearch::need(&models.context, net, nets, models.models.features as usize, settings, roots)?;
        let (made, rounds) = HonestSearch::rounds(models, settings, discount, nets, per)?;
        let device = Opened::Cuda(Arc::clone(&models.context));
        let tables = Tables::new(&device, Budget::default(), &[], &[])?;
        let (setup, members) = wide_setup(settings, nets, per);
        let pins = Nets::plan_pins(&device, net, &setup, &Pins::default())?;
        let nets = Nets::new(&device, Budget::default(), net, &tables, &setup, &members, &pins)?;
        Ok(HonestSearch { bytes, ..made(Way::Wide(Box::new(Wide::new(rounds, nets)))) })
    }

    /// A search whose one net is `[A + 1, inputs]` weights: f32 sums in the order of the inputs, logits first and then
    /// the value. For comparisons with the processor, bit by bit.
    ///
    /// # Errors
    ///
    /// Where the weights are not as many, a setting makes no sense, or the memory is not enough.
    pub fn plain(
        models: &Arc<HonestModels>,
        weights: &[f32],
        settings: &Settings,
        discount: f32,
        roots: usize,
    ) -> Result<HonestSearch> {
        check(settings)?;
        let inputs = models.models.features as usize + SHOWN;
        if weights.len() != (ACTIONS + 1) * inputs {
            return Err(Error::Invalid(format!("{} weights for {inputs} inputs", weights.len())));
        }
        let (made, rounds) = HonestSearch::rounds(models, settings, discount, 1, wide_per(settings, 1, roots))?;
        Ok(made(Way::Plain(Box::new(PlainNet::new(rounds, &models.context, weights)?))))
    }

    /// What searches in rounds share, to which their way is still to be given.
    fn rounds(
        models: &Arc<HonestModels>,
        settings: &Settings,
        discount: f32,
        nets: usize,
        per: usize,
    ) -> Result<(impl FnOnce(Way) -> HonestSearch, Rounds)> {
        let (context, extent) = (&models.context, Extent::of(settings));
        let (features, roots) = (models.models.features as usize, nets * per);
        let inputs = features + SHOWN;
        let bytes = roots as u64 * (extent.bytes() + (4 * extent.rows * (inputs + ACTIONS + 1) + 8) as u64)
            + roots_bytes(features, roots)
            + ((ACTIONS + 1) * settings.simulations as usize * 4) as u64
            + 24 * BORDER;
        let mut slab = context.slab(bytes)?;
        let stream = Stream::new(context)?;
        let search = arrays(models, &mut slab, &stream, settings, discount, roots, roots)?;
        let rounds = Rounds::new(&mut slab, &stream, &search, roots * extent.rows, inputs)?;
        let (models, settings) = (Arc::clone(models), settings.clone());
        let made = move |way| HonestSearch { models, stream, settings, search, way, nets, most: roots, bytes };
        Ok((made, rounds))
    }

    /// Bytes of its memory on the card, without models.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Roots that go at once; more go one part behind the other.
    pub fn at_once(&self) -> usize {
        self.most
    }

    /// How it works, in words.
    pub fn describe(&self) -> &'static str {
        match &self.way {
            Way::Small(_) => "a whole search in one kernel",
            Way::Wide(_) => "a kernel and a pass for each simulation",
            Way::Plain(_) => "a net without layers",
        }
    }

    /// The parameters of a net, `[params]`.
    ///
    /// # Errors
    ///
    /// Where there is no such net, they do not fit, or the card fails.
    pub fn set_params(&mut self, net: usize, params: &[f32]) -> Result<()> {
        if net >= self.nets {
            return Err(Error::Invalid(format!("net {net}; there are {}", self.nets)));
        }
        match &mut self.way {
            Way::Small(small) => {
                let each = small.params.len() / self.nets;
                let own = small.params.part(net * each, each)?;
                own.put(&self.stream, params)?;
                let (words, biases) = (small.given.words as usize, small.given.biases as usize);
                let pack = Pack {
                    params: own,
                    packed: small.pack.1.packed.part(net * words, words)?,
                    biases: small.pack.1.biases.part(net * biases, biases)?,
                    ..small.pack.1.clone()
                };
                small.pack.0.launch(
                    &self.stream,
                    Grid { blocks: [32, 1, 1], threads: [THREADS, 1, 1], shared: 0 },
                    &pack,
                )
            }
            Way::Wide(wide) => wide.nets.set_params(net, params),
            Way::Plain(_) => Err(Error::Invalid("a net without layers has its weights".into())),
        }
    }

    /// Searches from all roots; what was found is in their order.
    ///
    /// # Errors
    ///
    /// Where a root has a model or a net that is not there, an account with a stop or a limit, or an observation of
    /// another length; where a row behind the end of a model's training was asked for, or none may be drawn; or where
    /// the card fails.
    pub fn run(&mut self, roots: &[HonestRoot<'_>]) -> Result<Outcomes> {
        let scale = match self.settings.rule {
            RootRule::Puct { .. } => 0.0,
            RootRule::Gumbel { scale, .. } => scale,
        };
        self.run_scaled(roots, scale)
    }

    /// The same where Gumbel draws count so much: 0 takes what is best.
    ///
    /// # Errors
    ///
    /// As [`run`](HonestSearch::run).
    pub fn run_scaled(&mut self, roots: &[HonestRoot<'_>], scale: f32) -> Result<Outcomes> {
        roots.iter().try_for_each(|root| self.refuse(root))?;
        let mut order: Vec<usize> = (0..roots.len()).collect();
        order.sort_by_key(|at| roots[*at].net);
        let mut found = vec![0u32; roots.len() * FOUND];
        let mut keep = |order: &[usize], words: &[u32]| {
            for (at, own) in order.iter().zip(words.chunks_exact(FOUND)) {
                found[at * FOUND..(at + 1) * FOUND].copy_from_slice(own);
            }
        };
        match &self.way {
            Way::Small(_) => {
                for order in order.chunks(self.most.max(1)) {
                    self.upload(roots, order, scale)?;
                    self.launch_small(roots, order)?;
                    keep(order, &self.search.found.part(0, order.len() * FOUND)?.get(&self.stream)?);
                }
            }
            Way::Wide(_) | Way::Plain(_) => {
                let per = self.most / self.nets;
                // Nets have as many roots each: who has fewer takes the first root again.
                let mut of_nets: Vec<&[usize]> = Vec::new();
                let mut rest = order.as_slice();
                for net in 0..self.nets {
                    let count = rest.iter().take_while(|at| roots[**at].net == net).count();
                    let (own, later) = rest.split_at(count);
                    of_nets.push(own);
                    rest = later;
                }
                let rounds = of_nets.iter().map(|own| own.len().div_ceil(per)).max().unwrap_or(0);
                for round in 0..rounds {
                    let part = |own: &&[usize]| own.iter().copied().skip(round * per).take(per).collect::<Vec<_>>();
                    let parts: Vec<Vec<usize>> = of_nets.iter().map(part).collect();
                    let each = parts.iter().map(Vec::len).max().unwrap_or(0);
                    let padded: Vec<usize> = parts
                        .iter()
                        .flat_map(|own| (0..each).map(|i| own.get(i).copied().unwrap_or(order[0])))
                        .collect();
                    self.upload(roots, &padded, scale)?;
                    self.launch_rounds(each)?;
                    let words = self.search.found.part(0, padded.len() * FOUND)?.get(&self.stream)?;
                    for (own, words) in parts.iter().zip(words.chunks_exact(each * FOUND)) {
                        keep(own, words);
                    }
                }
            }
        }
        self.models.refuse_reached(&self.stream)?;
        Ok(outcomes(&found, roots))
    }

    /// Puts the last search on the stream once more, and waits: what is timed. Of more roots than go
    /// [at once](HonestSearch::at_once) it is a search of that many.
    ///
    /// # Errors
    ///
    /// Where the card fails.
    pub fn again(&mut self, roots: &[HonestRoot<'_>]) -> Result<()> {
        let mut order: Vec<usize> = (0..roots.len().min(self.most)).collect();
        order.sort_by_key(|at| roots[*at].net);
        match &self.way {
            Way::Small(_) => self.launch_small(roots, &order)?,
            Way::Wide(_) | Way::Plain(_) => self.launch_rounds(order.len().div_ceil(self.nets))?,
        }
        self.stream.wait()
    }

    fn refuse(&self, own: &HonestRoot<'_>) -> Result<()> {
        let (known, features) = (&own.root.known, self.models.models.features as usize);
        let invalid = |message: String| Err(Error::Invalid(message));
        if own.model >= self.models.rows.len() || own.net >= self.nets {
            return invalid(format!(
                "a root of model {} and net {}; there are {} and {}",
                own.model,
                own.net,
                self.models.rows.len(),
                self.nets
            ));
        }
        if known.observation.len() != features {
            return invalid(format!(
                "an observation of {} numbers; the models have {features}",
                known.observation.len()
            ));
        }
        if known.account.stop != 0.0 || known.account.limit != 0.0 {
            return invalid("an account with a stop or a limit; a search on a card has none".into());
        }
        Ok(())
    }

    /// Roots in an order, in one piece each of numbers, floats and words.
    fn upload(&mut self, roots: &[HonestRoot<'_>], order: &[usize], scale: f32) -> Result<()> {
        let features = self.models.models.features as usize;
        let rule = match self.settings.rule {
            RootRule::Gumbel { considered, .. } => RootRule::Gumbel { considered, scale },
            puct => puct,
        };
        let settings = Settings { rule, ..self.settings.clone() };
        let mut numbers = Vec::with_capacity(order.len() * ROOT_NUMBERS);
        let mut floats = Vec::with_capacity(order.len() * (features + ROOT_FLOATS));
        let mut words = Vec::with_capacity(order.len() * ROOT_WORDS);
        for at in order {
            let HonestRoot { root, model, net, prior } = &roots[*at];
            let known = &root.known;
            numbers.extend(known.params.numbers());
            numbers.extend(known.bar.numbers());
            numbers.extend_from_slice(&Account::numbers(&known.account)[..STATE]);
            floats.extend_from_slice(&known.observation);
            floats.extend([known.time[0], logarithm(known.time[1])]);
            floats.extend(self.models.cells[*model].key(&known.observation));
            floats.extend(prior);
            floats.extend(gumbels_of(&settings, std::slice::from_ref(*root), ACTIONS));
            let path = root_path(root.counter);
            words.extend([path as u32, (path >> 32) as u32, *model as u32, *net as u32]);
            words.extend([known.excluded.start, known.excluded.end]);
        }
        let Honest { numbers: to_numbers, floats: to_floats, root_words, .. } = &self.search;
        to_numbers.part(0, numbers.len())?.put(&self.stream, &numbers)?;
        to_floats.part(0, floats.len())?.put(&self.stream, &floats)?;
        root_words.part(0, words.len())?.put(&self.stream, &words)
    }

    fn launch_small(&mut self, roots: &[HonestRoot<'_>], order: &[usize]) -> Result<()> {
        let Way::Small(small) = &mut self.way else { return Ok(()) };
        // As many blocks as the card takes at once, where there are roots for them.
        let each = order.len().div_ceil(small.blocks).clamp(1, small.most_each);
        let mut groups = Vec::new();
        let mut from = 0;
        while from < order.len() {
            let net = roots[order[from]].net;
            let count = order[from..].iter().take(each).take_while(|at| roots[**at].net == net).count();
            groups.extend([from as u32, count as u32]);
            from += count;
        }
        let own = small.given.groups.part(0, groups.len())?;
        own.put(&self.stream, &groups)?;
        let mut given = small.given.clone();
        (given.groups, given.search.roots) = (own, counted(order.len())?);
        let blocks = (groups.len() / 2).min(small.blocks) as u32;
        let grid = Grid { blocks: [blocks, 1, 1], threads: [THREADS, 1, 1], shared: small.shared };
        small.kernel.launch(&self.stream, grid, &given)
    }

    /// All rounds of a search from `per` roots of each net.
    fn launch_rounds(&mut self, per: usize) -> Result<()> {
        match &mut self.way {
            Way::Small(_) => Ok(()),
            Way::Plain(plain) => plain.search(&self.stream, &self.settings, per),
            Way::Wide(wide) => wide.search(&self.stream, &self.settings, self.nets, per),
        }
    }
}

/// How a net is laid out in the blocks that search with it; none where it goes through `Nets`.
fn packed_shape(context: &Context, net: &Net) -> Result<Option<Shape>> {
    Ok(Shape::of(net)?.filter(|shape| shared_of(shape, false) <= context.gpu().shared as usize))
}

/// Wide nets that search from `per` roots each at once.
fn wide_setup(settings: &Settings, nets: usize, per: usize) -> (Setup, Vec<MemberSetup>) {
    let setup = Setup::inference((per * Extent::of(settings).rows).min(PASS_ROWS), Precision::Bf16);
    (setup, (0..nets).map(|id| MemberSetup { id: id as u32, scales: Vec::new() }).collect())
}

/// Rows that `Nets` takes at once.
const PASS_ROWS: usize = 1 << 14;

/// All inputs as numbers that come with a row.
fn dense(net: &Net) -> Net {
    let mut net = net.clone();
    net.inputs.iter_mut().for_each(|input| input.dense = true);
    net
}

/// What the words of `[roots, FOUND]` say. Of a root that is not sure they say what it holds, which may not be legal.
fn outcomes(found: &[u32], roots: &[HonestRoot<'_>]) -> Outcomes {
    let mut all = Outcomes { actions: ACTIONS, ..Outcomes::default() };
    for (own, HonestRoot { root, .. }) in found.chunks_exact(FOUND).zip(roots) {
        let float = |at: usize| f32::from_bits(own[at]);
        all.visits.extend_from_slice(&own[..3]);
        all.q.extend((3..6).map(float));
        all.policy.extend((6..9).map(float));
        all.value.push(float(9));
        all.advantage.push(float(10));
        all.error.push(float(11));
        all.chosen.push(kept(legal(&root.known.params, &root.known.bar), own[12] as usize) as u8);
        all.held.push(own[13] as u8);
    }
    all
}
