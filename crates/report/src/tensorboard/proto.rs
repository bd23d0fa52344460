//! Protocol buffers, as much as an event needs: a message is a sequence of (number, kind, value).

/// A message in the making. Fields are written in the order of the calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn new() -> Message {
        Message::default()
    }

    /// An `Event` of that time (seconds since 1970) and step.
    pub(super) fn event(wall: f64, step: u64) -> Message {
        let mut message = Message::new();
        message.key(1, 1);
        message.0.extend(wall.to_le_bytes());
        if step > 0 { message.number(2, step) } else { message }
    }

    /// A whole number.
    pub(super) fn number(mut self, field: u32, value: u64) -> Message {
        self.key(field, 0);
        self.varint(value);
        self
    }

    /// Four bytes of a float.
    pub(super) fn float(mut self, field: u32, value: f32) -> Message {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Text, or bytes.
    pub(super) fn text(mut self, field: u32, value: &str) -> Message {
        self.block(field, value.as_bytes());
        self
    }

    /// A message inside this one.
    pub(super) fn message(mut self, field: u32, value: Message) -> Message {
        self.block(field, &value.0);
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn block(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn key(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
