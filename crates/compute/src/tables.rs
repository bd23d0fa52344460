//! Tables that stay on a device: numbers in rows, and for each input which row an id means.
//!
//! Made once for a run and shared by any number of populations, nets and environments ([`Arc`]): a device holds one
//! copy. An id without a map is the row itself; with a map the map names the row. There are as many ids as the first
//! map has, or the first table rows.

use crate::cuda::{Array, Memory, Slab, Slice, Stream, lock_driver};
use crate::device::{Budget, Device, Opened};
use crate::error::{Error, Result};
use crate::host::copied;
use crate::net::Net;
use std::sync::Arc;

/// Numbers in rows: `[rows, stride]`, row-major.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    /// `[rows, stride]`
    pub values: &'a [f32],
    /// Elements of a row, a multiple of 4.
    pub stride: usize,
}

impl Table<'_> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.stride).unwrap_or(0)
    }
}

/// Tables and maps on a device.
pub struct Tables {
    shapes: Vec<Shape>,          // [inputs]
    maps: Vec<Option<Vec<u32>>>, // [inputs][ids] on the host, for checks
    store: Store,
    device: Device,
    bytes: u64,
}

struct Shape {
    rows: usize,
    stride: usize,
}

enum Store {
    /// `[inputs][rows, stride]`
    Cpu(Vec<Vec<f32>>),
    Cuda(Resident),
}

/// Tables on a card.
pub(crate) struct Resident {
    pub(crate) tables: Vec<Slice<f32>>,       // [inputs] [rows, stride]
    pub(crate) maps: Vec<Option<Slice<u32>>>, // [inputs] [ids]
    slab: Slab,
}

impl Resident {
    pub(crate) fn memory(&self) -> &Arc<Memory> {
        self.slab.memory()
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tables of {} ids on {:?}", self.len(), self.ids(), self.device)
    }
}

impl Tables {
    /// Brings tables to a device, one for each input, with the maps of those whose rows are not the ids.
    ///
    /// # Errors
    ///
    /// Where a stride, a map or the memory is not enough.
    pub fn new(device: &Opened, budget: Budget, tables: &[Table<'_>], maps: &[Option<&[u32]>]) -> Result<Arc<Tables>> {
        check(tables, maps)?;
        let (bytes, most) = (Tables::need(device, tables, maps), budget.bytes(device.free()?));
        if bytes > most {
            return Err(Error::Memory {
                what: "the tables".into(),
                device: device.name(),
                needed: bytes,
                budget: most,
                fits: "fewer rows or fewer features would fit".into(),
            });
        }
        let store = match device {
            Opened::Cpu { .. } => Store::Cpu(tables.iter().map(|t| copied(t.values, "tables")).collect::<Result<_>>()?),
            Opened::Cuda(context) => {
                let _lock = lock_driver();
                let stream = Stream::new(context)?;
                let mut slab = context.slab(bytes)?;
                let cut = |slab: &mut Slab, t: &Table<'_>| -> Result<Slice<f32>> {
                    let to = slab.cut(t.values.len())?;
                    stream.put(&to, t.values).map(|()| to)
                };
                let on = tables.iter().map(|t| cut(&mut slab, t)).collect::<Result<_>>()?;
                let put = |slab: &mut Slab, map: &[u32]| -> Result<Slice<u32>> {
                    let to = slab.cut(map.len())?;
                    stream.put(&to, map).map(|()| to)
                };
                let maps = maps.iter().map(|m| m.map(|m| put(&mut slab, m)).transpose()).collect::<Result<_>>()?;
                Store::Cuda(Resident { tables: on, maps, slab })
            }
        };
        Ok(Arc::new(Tables {
            shapes: tables.iter().map(|t| Shape { rows: t.rows(), stride: t.stride }).collect(),
            maps: maps.iter().map(|m| m.map(|m| copied(m, "maps of rows")).transpose()).collect::<Result<_>>()?,
            store,
            device: device.device(),
            bytes,
        }))
    }

    /// Bytes that tables take on a device.
    pub fn need(device: &Opened, tables: &[Table<'_>], maps: &[Option<&[u32]>]) -> u64 {
        let each = tables.iter().map(|t| t.values.len()).chain(maps.iter().flatten().map(|m| m.len()));
        match device {
            Opened::Cpu { .. } => each.map(|n| 4 * n as u64).sum(),
            Opened::Cuda(_) => each.map(crate::cuda::aligned::<f32>).sum(),
        }
    }

    /// Bytes they take there.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The device they are on.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Number of tables.
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// Number of ids.
    pub fn ids(&self) -> usize {
        self.maps.first().and_then(Option::as_ref).map_or_else(|| self.shapes.first().map_or(0, |s| s.rows), Vec::len)
    }

    /// Elements of a row of one table.
    pub fn stride(&self, input: usize) -> usize {
        self.shapes[input].stride
    }

    /// The row of a table that an id means.
    pub fn row(&self, input: usize, id: u32) -> u32 {
        self.maps[input].as_ref().map_or(id, |map| map[id as usize])
    }

    /// One table, where the processor holds it.
    pub fn table(&self, input: usize) -> Option<Table<'_>> {
        match &self.store {
            Store::Cpu(tables) => Some(Table { values: &tables[input], stride: self.shapes[input].stride }),
            Store::Cuda(_) => None,
        }
    }

    /// One table and its map on a card, `[rows, stride]` and `[ids]`, for kernels of other rooms.
    ///
    /// # Errors
    ///
    /// Where they are in the processor's memory.
    pub fn array(&self, input: usize) -> Result<(Array<f32>, Option<Array<u32>>)> {
        let on = self.on_card()?;
        Ok((on.slab.share(&on.tables[input]), on.maps[input].as_ref().map(|map| on.slab.share(map))))
    }

    /// Those on a card.
    pub(crate) fn on_card(&self) -> Result<&Resident> {
        match &self.store {
            Store::Cuda(resident) => Ok(resident),
            Store::Cpu(_) => Err(Error::Invalid("these tables are in the processor's memory, not on the card".into())),
        }
    }

    /// Those in the processor's memory.
    pub(crate) fn on_cpu(&self) -> Result<&[Vec<f32>]> {
        match &self.store {
            Store::Cpu(tables) => Ok(tables),
            Store::Cuda(_) => Err(Error::Invalid("these tables are on a card, not in the processor's memory".into())),
        }
    }

    /// Whether they serve a net: a table for each input, with rows wide enough.
    pub(crate) fn serve(&self, net: &Net) -> Result<()> {
        let read = || net.inputs.iter().filter(|i| !i.dense);
        let n = read().count();
        if self.len() != n {
            return Err(Error::Invalid(format!("{n} inputs and {} tables; give one for every input", self.len())));
        }
        let narrow = read().zip(&self.shapes).find(|(input, shape)| shape.stride < input.features);
        match narrow {
            Some((input, shape)) => Err(Error::Invalid(format!(
                "input {}: a stride of {} for {} features; pad rows to a multiple of 4",
                input.name, shape.stride, input.features
            ))),
            None => Ok(()),
        }
    }

    /// Whether the window that ends at an id's row begins in the table.
    fn is_whole(&self, input: usize, id: u32, window: usize) -> bool {
        self.row(input, id) as usize + 1 >= window
    }

    /// The first id that can be gathered for a net.
    pub(crate) fn first_whole(&self, net: &Net) -> Option<u32> {
        let windows: Vec<usize> = net.inputs.iter().filter(|i| !i.dense).map(|i| i.window).collect();
        let whole = |id: &u32| windows.iter().enumerate().all(|(i, window)| self.is_whole(i, *id, *window));
        (0..self.ids() as u32).find(whole)
    }

    /// Whether these ids can be gathered for a net: ids that exist, with windows that are whole.
    pub(crate) fn check(&self, net: &Net, ids: &[u32], what: &str) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let all = self.ids();
        if let Some(id) = ids.iter().find(|id| **id as usize >= all) {
            return Err(Error::Invalid(format!("{what}: {id} is none of the {all} ids there are; leave it out")));
        }
        for (i, input) in net.inputs.iter().filter(|i| !i.dense).enumerate() {
            if let Some(id) = ids.iter().find(|id| !self.is_whole(i, **id, input.window)) {
                return Err(Error::Invalid(format!(
                    "{what}: the window of {} rows that ends at row {} of input {} reaches before the table; leave out {id}",
                    input.window,
                    self.row(i, *id),
                    input.name
                )));
            }
        }
        Ok(())
    }
}

/// What is wrong with tables and maps, whatever net reads them.
fn check(tables: &[Table<'_>], maps: &[Option<&[u32]>]) -> Result<()> {
    let wrong = |what: String| Err(Error::Invalid(what));
    if tables.len() != maps.len() {
        return wrong(format!("{} tables and {} maps; give one of each for every input", tables.len(), maps.len()));
    }
    let ids = maps.first().copied().flatten().map_or_else(|| tables.first().map_or(0, Table::rows), <[u32]>::len);
    if u32::try_from(ids).is_err() {
        return wrong(format!("{ids} ids; they are 32 bits: split the data"));
    }
    for (i, (table, map)) in tables.iter().zip(maps).enumerate() {
        let (rows, stride, length) = (table.rows(), table.stride, table.values.len());
        if stride == 0 || stride % 4 != 0 {
            return wrong(format!("table {i}: a stride of {stride}; pad rows to a multiple of 4"));
        }
        if length % stride != 0 {
            return wrong(format!("table {i}: {length} numbers are no whole rows of {stride}; give whole rows"));
        }
        let Some(map) = map else {
            if rows < ids {
                return wrong(format!("table {i}: {rows} rows for {ids} ids; give it a map"));
            }
            continue;
        };
        if map.len() != ids {
            return wrong(format!("table {i}: a map of {} rows for {ids} ids; give one for each id", map.len()));
        }
        if let Some(outside) = map.iter().find(|row| **row as usize >= rows) {
            return wrong(format!("table {i}: its map names row {outside} of {rows}; map to rows that exist"));
        }
    }
    Ok(())
}
