//! The fields of the index.

use std::sync::LazyLock;

use tantivy::IndexSettings;
use tantivy::schema::{
    FAST, Field, IndexRecordOption, NumericOptions, STORED, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::store::Compressor;

/// The name of the tokenizer in the schema. Change the number in the name if the tokenizer returns
/// other words for a text than before. Then the schema of existing indexes differs, so these
/// indexes are built again.
pub(crate) const TOKENIZER: &str = "words1";

/// The text fields of the index. Each word of a message is in one of these fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextField {
    /// The visible text of the message, and the names of the attachments.
    Body,
    /// The subject.
    Subject,
    /// The names and addresses in From.
    From,
    /// The names and addresses in To and Cc.
    To,
}

impl TextField {
    pub(crate) const ALL: [Self; 4] = [Self::Body, Self::Subject, Self::From, Self::To];
}

/// The schema and its fields.
pub(crate) struct Fields {
    pub(crate) schema: Schema,
    pub(crate) texts: [Field; 4],
    pub(crate) number: Field,
    pub(crate) arrival: Field,
    pub(crate) date: Field,
    pub(crate) size: Field,
    pub(crate) has_attachment: Field,
    pub(crate) has_codes: Field,
    pub(crate) message_id: Field,
    pub(crate) references: Field,
    pub(crate) base_subject: Field,
    pub(crate) untagged_subject: Field,
    pub(crate) is_reply: Field,
    pub(crate) summary: Field,
    pub(crate) text: Field,
}

/// The schema and its fields.
pub(crate) static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    let mut schema = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(TOKENIZER)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let words = TextOptions::default().set_indexing_options(indexing);
    let texts =
        ["body", "subject", "from", "to"].map(|name| schema.add_text_field(name, words.clone()));
    Fields {
        texts,
        // The message number is indexed, because messages are deleted by message number. The flag
        // `INDEXED` would also store a field length, which only scores need.
        number: schema.add_u64_field("uid", NumericOptions::default().set_fast().set_indexed()),
        arrival: schema.add_i64_field("arrival", FAST),
        date: schema.add_i64_field("date", FAST),
        size: schema.add_u64_field("size", FAST),
        has_attachment: schema.add_bool_field("has_attachment", FAST),
        has_codes: schema.add_bool_field("has_codes", FAST),
        message_id: schema.add_u64_field("message_id", FAST),
        references: schema.add_u64_field("references", FAST),
        base_subject: schema.add_u64_field("base_subject", FAST),
        untagged_subject: schema.add_u64_field("untagged_subject", FAST),
        is_reply: schema.add_bool_field("is_reply", FAST),
        summary: schema.add_bytes_field("summary", STORED),
        text: schema.add_text_field("text", STORED),
        schema: schema.build(),
    }
});

/// Returns the settings of a new index.
pub(crate) fn settings() -> IndexSettings {
    IndexSettings {
        docstore_compression: Compressor::Lz4,
        docstore_compress_dedicated_thread: false,
        ..IndexSettings::default()
    }
}
