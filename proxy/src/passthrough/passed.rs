//! Why a request is passed through. Each reason is one short text, for the header that says who answered and for counts;
//! it is a bounded set, so it may be a label.

/// Why weir does not answer itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Passed {
    /// It changes something, or is no list, watch or get of a collection's objects.
    NotARead,
    /// It asks for an upgrade.
    Upgrade,
    /// The resource has no mirror, and by policy gets none.
    NotMirrored,
    /// The resource has no mirror, and for this request alone none is begun.
    Lone,
    /// The mirror is not ready yet.
    Loading,
    /// The answer is wanted in an encoding, or as a transformation, that the mirror does not hold.
    Encoding,
    /// The options are such that upstream's own answer to them is wanted.
    Options,
    /// The answer must prove that it is fresh.
    Freshness,
    /// The resourceVersion is older than what is kept here.
    TooOld,
    /// The resourceVersion has not been reached here.
    NotReached,
    /// The object is not in the mirror, which proves nothing.
    NotFound,
    /// Nobody could vouch for the caller's right to read, so upstream is to say yes or no.
    NoPermit,
    /// The answer is to be audited, and cannot be.
    Audit,
}

// === impl Passed ===

impl Passed {
    /// The reason in a few words.
    pub fn reason(self) -> &'static str {
        self.answered_by().strip_prefix("passed; ").unwrap_or_default()
    }

    /// The value of the header `Weir-Answered-By`.
    pub fn answered_by(self) -> &'static str {
        match self {
            Self::NotARead => "passed; not a read of objects",
            Self::Upgrade => "passed; upgrade",
            Self::NotMirrored => "passed; not mirrored",
            Self::Lone => "passed; lone request",
            Self::Loading => "passed; mirror is loading",
            Self::Encoding => "passed; encoding",
            Self::Options => "passed; options",
            Self::Freshness => "passed; freshness",
            Self::TooOld => "passed; too old",
            Self::NotReached => "passed; not reached yet",
            Self::NotFound => "passed; not found here",
            Self::NoPermit => "passed; no permit",
            Self::Audit => "passed; audit",
        }
    }
}
