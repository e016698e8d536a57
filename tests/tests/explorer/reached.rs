//! How often runs came to the situations that they are for: an explorer that never gets there finds nothing.

/// How often a run came to what it is for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    pub(crate) released: usize,
    pub(crate) lists: usize,
    pub(crate) lists_broken: usize,
    pub(crate) left: usize,
    pub(crate) too_old: usize,
    pub(crate) ended: usize,
    pub(crate) complete: usize,
    pub(crate) relists: usize,
    pub(crate) overruns: usize,
    pub(crate) gaps: usize,
    pub(crate) led_back: usize,
    pub(crate) behind_hub: usize,
    pub(crate) gone_over: usize,
    pub(crate) restored: usize,
    pub(crate) lost: usize,
}

// === impl Reached ===

impl Reached {
    pub(crate) fn add(&mut self, other: &Self) {
        let mine = self.each_mut();
        for (mine, (_, more)) in mine.into_iter().zip(other.each()) {
            *mine += more;
        }
    }

    pub(crate) fn assert_everything(&self) {
        for (name, count) in self.each() {
            assert!(count > 0, "no run came to {name}: {self:#?}");
        }
    }

    fn each(&self) -> [(&'static str, usize); 15] {
        let Self { released, lists, lists_broken, left, too_old, ended, complete, .. } = *self;
        let Self { relists, overruns, gaps, led_back, behind_hub, gone_over, restored, lost, .. } = *self;
        [
            ("released", released),
            ("lists", lists),
            ("lists_broken", lists_broken),
            ("left", left),
            ("too_old", too_old),
            ("ended", ended),
            ("complete", complete),
            ("relists", relists),
            ("overruns", overruns),
            ("gaps", gaps),
            ("led_back", led_back),
            ("behind_hub", behind_hub),
            ("gone_over", gone_over),
            ("restored", restored),
            ("lost", lost),
        ]
    }

    fn each_mut(&mut self) -> [&mut usize; 15] {
        let Self {
            released,
            lists,
            lists_broken,
            left,
            too_old,
            ended,
            complete,
            relists,
            overruns,
            gaps,
            ..
        } = self;
        let Self { led_back, behind_hub, gone_over, restored, lost, .. } = self;
        [
            released,
            lists,
            lists_broken,
            left,
            too_old,
            ended,
            complete,
            relists,
            overruns,
            gaps,
            led_back,
            behind_hub,
            gone_over,
            restored,
            lost,
        ]
    }
}
