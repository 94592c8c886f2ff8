// unio/detail/asio_names.hpp: the resolver of Asio over unio::foreign_names. The two resolver_service.hpp
// include this, once for each namespace: there is no guard.
//
// A program that has unio::net is answered by that; in any other one, and for what unio does not answer as
// getaddrinfo(3) does, Asio's own service is asked, which has the name asio_resolver_service here. What is
// observable is as with that, but for time: a cancelled look-up ends at once.
//
//   async_resolve ─► listed, asked ─► answered, on unio's thread ─► posted to the scheduler ─► the handler
//                      ├─ the resolver cancels: posted with operation_aborted; the answer finds no operation
//                      └─ the context ends: destroyed; likewise
//
// The thread that takes an operation from the list, under its lock, ends it.
//
// C++11, as Asio is.

#include <unio/extend/foreign_lock.hpp>
#include <unio/extend/foreign_names.hpp>

#include <netdb.h>

#include <cerrno>
#include <memory>
#include <mutex>

#if UNIO_USES_NET && !defined(UNIO_ASIO_TAKES_NET)
#define UNIO_ASIO_TAKES_NET
namespace {
// unio::net is taken by the linker, also from an archive and with --as-needed: for a weak reference it would
// not be.
__attribute__((used)) char const* const unio_asio_takes_net = &unio::unio_net_is_linked;
} // namespace
#endif

UNIO_ASIO_BEGIN

class names_on_unio;

// What is asked for a handler.
class names_op : public resolve_op {
 public:
  typedef std::weak_ptr<void> token; // expires when its resolver cancels

 protected:
  typedef unio::foreign_question (*question_function)(names_op const*);
  names_op(func_type f, question_function q, token const& t)
      : resolve_op(f), question_(q), token_(t), next_(0), previous_(0) {}

  std::unique_ptr<unio::foreign_answer> answer_;

 private:
  friend class names_on_unio;
  class asker;

  question_function question_;
  token token_;
  std::shared_ptr<asker> asker_;
  std::shared_ptr<unio::foreign_look_up> look_up_; // null at first
  names_op* next_;
  names_op* previous_;
};

// The look-ups of a context and a protocol.
class names_on_unio {
 public:
  typedef decltype(resolve_op::ec_) failure;

  // Asked by one of unio's threads for as long as the scheduler lets others complete operations.
  names_on_unio(scheduler& s, bool has_locks)
      : names_(has_locks ? unio::foreign_names::linked() : 0), shared_(std::make_shared<shared>(s)) {}

  bool is_used() const { return names_ != 0; }
  bool can_answer(unio::foreign_question const& q) const { return names_ && names_->can_answer(q); }

  // Preconditions: can_answer(), as below.
  std::unique_ptr<unio::foreign_answer> answer(unio::foreign_question const& q) { return names_->answer(q); }

  // Owns `op` from here on, unless it throws.
  void ask(names_op* op) {
    shared_->scheduler_.work_started();
    struct undo {
      ~undo() {
        if (to) to->work_finished();
      }
      scheduler* to;
    } if_it_throws = {&shared_->scheduler_};
    begin(op, true);
    if_it_throws.to = 0;
  }

  // Ends what no resolver wants any more.
  void cancel_expired() {
    if (!names_) return;
    names_op* taken = 0;
    {
      hold lock(shared_->lock_);
      for (names_op* op = shared_->first_; op;) {
        names_op* const next = op->next_;
        if (op->token_.expired()) shared_->take(op, taken);
        op = next;
      }
    }
    op_queue<operation> ops;
    give_up(taken, ops);
    shared_->scheduler_.post_deferred_completions(ops);
  }

  void end() {
    names_op* taken = 0;
    {
      hold lock(shared_->lock_);
      while (shared_->first_) shared_->take(shared_->first_, taken);
    }
    op_queue<operation> ops;
    give_up(taken, ops);
    shared_->scheduler_.abandon_operations(ops);
  }

  // Unio's thread is the parent's, so the child asks again.
  void after_fork(execution_context::fork_event event) {
    if (!names_) return;
    if (event != execution_context::fork_child) return;
    for (names_op* op = shared_->first_; op; op = op->next_) begin(op, false);
  }

  static failure translate(unio::foreign_answer const* a) {
    if (!a) return error::no_memory;
    switch (a->error) {
      case 0:
        return failure();
      case EAI_AGAIN:
        return error::host_not_found_try_again;
      case EAI_BADFLAGS:
        return error::invalid_argument;
      case EAI_FAIL:
        return error::no_recovery;
      case EAI_FAMILY:
        return error::address_family_not_supported;
      case EAI_MEMORY:
        return error::no_memory;
      case EAI_SERVICE:
        return error::service_not_found;
      case EAI_SOCKTYPE:
        return error::socket_type_not_supported;
      case EAI_SYSTEM:
        return failure(a->system_error, error::get_system_category());
      default: // no such name, or none of its addresses is wanted
        return error::host_not_found;
    }
  }

 private:
  friend class names_op;
  typedef std::lock_guard<unio::foreign_lock> hold;

  // Outlives the context while unio has an asker.
  struct shared {
    explicit shared(scheduler& s) : scheduler_(s), first_(0) {}
    void add(names_op* op) {
      op->next_ = first_;
      op->previous_ = 0;
      if (first_) first_->previous_ = op;
      first_ = op;
    }
    void remove(names_op* op) {
      (op->previous_ ? op->previous_->next_ : first_) = op->next_;
      if (op->next_) op->next_->previous_ = op->previous_;
    }
    void take(names_op* op, names_op*& taken);

    scheduler& scheduler_;
    unio::foreign_lock lock_; // of the list, and of each asker's operation
    names_op* first_;
  };

  void begin(names_op* op, bool is_new);
  static void give_up(names_op* taken, op_queue<operation>& ops) {
    while (names_op* op = taken) {
      taken = op->next_;
      if (op->look_up_) op->look_up_->cancel();
      op->ec_ = error::operation_aborted;
      ops.push(op);
    }
  }

  unio::foreign_names* const names_;
  std::shared_ptr<shared> const shared_;
};

class names_op::asker : public unio::foreign_asker {
 public:
  asker(std::shared_ptr<names_on_unio::shared> const& s, names_op* op) : shared_(s), op_(op) {}
  void answered(std::unique_ptr<unio::foreign_answer> answer) noexcept {
    // The context does not end while the lock is held.
    names_on_unio::hold lock(shared_->lock_);
    names_op* const op = op_;
    if (!op) return;
    op_ = 0;
    shared_->remove(op);
    op->ec_ = names_on_unio::translate(answer.get());
    op->answer_ = std::move(answer);
    shared_->scheduler_.post_deferred_completion(op);
  }
  void set_look_up(std::shared_ptr<unio::foreign_look_up> const& l) {
    names_on_unio::hold lock(shared_->lock_);
    if (op_) op_->look_up_ = l;
  }

  std::shared_ptr<names_on_unio::shared> const shared_;
  names_op* op_; // null: it has ended
};

inline void names_on_unio::shared::take(names_op* op, names_op*& taken) {
  remove(op);
  op->asker_->op_ = 0;
  op->next_ = taken;
  taken = op;
}

inline void names_on_unio::begin(names_op* op, bool is_new) {
  std::shared_ptr<names_op::asker> const asker = std::make_shared<names_op::asker>(shared_, op);
  {
    hold lock(shared_->lock_);
    if (op->asker_) op->asker_->op_ = 0;
    op->asker_ = asker;
    if (is_new) shared_->add(op);
  }
  struct undo {
    ~undo() {
      if (!is_needed) return;
      hold lock(asker.shared_->lock_);
      if (is_new) asker.shared_->remove(asker.op_);
      asker.op_ = 0;
    }
    names_op::asker& asker;
    bool is_new;
    bool is_needed;
  } if_it_throws = {*asker, is_new, true};
  std::shared_ptr<unio::foreign_look_up> const l = names_->ask(op->question_(op), asker);
  if_it_throws.is_needed = false;
  asker->set_look_up(l); // unless it was answered already, and the operation is gone
}

// The two kinds of question to a resolver.
template <class Protocol> class names_query {
 public:
  typedef ip::basic_resolver_query<Protocol> what;
  typedef ip::basic_resolver_results<Protocol> results_type;
  explicit names_query(what const& w) : hints_(w.hints()), host_(w.host_name()), service_(w.service_name()) {}
  unio::foreign_question question() const {
    unio::foreign_question q;
    q.host = host_.c_str();
    q.service = service_.c_str();
    q.flags = hints_.ai_flags;
    q.family = hints_.ai_family;
    q.type = hints_.ai_socktype;
    q.protocol = hints_.ai_protocol;
    return q;
  }
  results_type results(unio::foreign_answer const& a) const {
    return results_type::create(a.first, host_, service_);
  }

 private:
  addrinfo_type hints_;
  std::string host_;
  std::string service_;
};

template <class Protocol> class names_endpoint {
 public:
  typedef typename Protocol::endpoint what;
  typedef ip::basic_resolver_results<Protocol> results_type;
  explicit names_endpoint(what const& w) : endpoint_(w) {}
  unio::foreign_question question() const {
    unio::foreign_question q;
    q.address = endpoint_.data();
    q.address_size = static_cast<unsigned>(endpoint_.size());
    q.type = endpoint_.protocol().type();
    return q;
  }
  results_type results(unio::foreign_answer const& a) const {
    return results_type::create(endpoint_, a.host, a.service);
  }

 private:
  what endpoint_;
};

template <class Question, class Handler, class IoExecutor> class names_op_for : public names_op {
 public:
  UNIO_ASIO(DEFINE_HANDLER_PTR)(names_op_for);

  names_op_for(token const& t, Question const& question, Handler& handler, IoExecutor const& io)
      : names_op(&names_op_for::complete, &names_op_for::question_of, t),
        asked_(question),
        handler_(static_cast<Handler&&>(handler)),
        work_(handler_, io) {}

 private:
  typedef typename Question::results_type results_type;
  typedef names_on_unio::failure failure;

  static unio::foreign_question question_of(names_op const* self) {
    return static_cast<names_op_for const*>(self)->asked_.question();
  }

  // In run(), or, without an owner, because the context ends.
  static void complete(void* owner, operation* base, failure const&, std::size_t) {
    names_op_for* const self = static_cast<names_op_for*>(base);
    ptr memory = {detail::addressof(self->handler_), self, self};
    UNIO_ASIO(HANDLER_COMPLETION)((*self));
    handler_work<Handler, IoExecutor> work(static_cast<handler_work<Handler, IoExecutor>&&>(self->work_));
    // The memory goes back before the handler is called, which is moved out of it.
    binder2<Handler, failure, results_type> bound(self->handler_, self->ec_, results_type());
    memory.h = detail::addressof(bound.handler_);
    if (owner && !self->ec_ && self->answer_) bound.arg2_ = self->asked_.results(*self->answer_);
    memory.reset();
    if (!owner) return;
    fenced_block fence(fenced_block::half);
    UNIO_ASIO(HANDLER_INVOCATION_BEGIN)((bound.arg1_, "..."));
    work.complete(bound, bound.handler_);
    UNIO_ASIO(HANDLER_INVOCATION_END);
  }

  Question asked_;
  Handler handler_;
  handler_work<Handler, IoExecutor> work_;
};

template <class Protocol>
class resolver_service : public execution_context_service_base<resolver_service<Protocol>> {
  typedef names_on_unio::failure failure;
  typedef asio_resolver_service<Protocol> stock_service;

 public:
  typedef socket_ops::shared_cancel_token_type implementation_type;
  typedef typename Protocol::endpoint endpoint_type;
  typedef ip::basic_resolver_query<Protocol> query_type;
  typedef ip::basic_resolver_results<Protocol> results_type;

  explicit resolver_service(execution_context& context)
      : execution_context_service_base<resolver_service<Protocol>>(context),
        scheduler_(use_service<scheduler>(context)),
        names_(scheduler_, has_locks(context, scheduler_)) {
    if (!names_.is_used()) stock();
  }
  void shutdown() { names_.end(); }
  void notify_fork(execution_context::fork_event event) { names_.after_fork(event); }

  void construct(implementation_type& impl) { renew(impl); }
  void destroy(implementation_type& impl) {
    UNIO_ASIO(HANDLER_OPERATION)((scheduler_.context(), "resolver", &impl, 0, "cancel"));
    impl.reset();
    names_.cancel_expired();
  }
  void move_construct(implementation_type& impl, implementation_type& other) {
    impl = static_cast<implementation_type&&>(other);
  }
  void move_assign(implementation_type& impl, resolver_service&, implementation_type& other) {
    destroy(impl);
    impl = static_cast<implementation_type&&>(other);
  }
  void converting_move_construct(implementation_type& impl, resolver_service&, implementation_type& other) {
    move_construct(impl, other);
  }
  void converting_move_assign(implementation_type& impl, resolver_service& service,
                              implementation_type& other) {
    move_assign(impl, service, other);
  }
  void cancel(implementation_type& impl) {
    UNIO_ASIO(HANDLER_OPERATION)((scheduler_.context(), "resolver", &impl, 0, "cancel"));
    renew(impl);
    names_.cancel_expired();
  }

  results_type resolve(implementation_type& impl, query_type const& query, failure& ec) {
    return resolve_now<names_query<Protocol>>(impl, query, ec);
  }
  results_type resolve(implementation_type& impl, endpoint_type const& endpoint, failure& ec) {
    return resolve_now<names_endpoint<Protocol>>(impl, endpoint, ec);
  }
  template <class Handler, class IoExecutor>
  void async_resolve(implementation_type& impl, query_type const& query, Handler& handler,
                     IoExecutor const& io) {
    resolve_later<names_query<Protocol>>(impl, query, handler, io);
  }
  template <class Handler, class IoExecutor>
  void async_resolve(implementation_type& impl, endpoint_type const& endpoint, Handler& handler,
                     IoExecutor const& io) {
    resolve_later<names_endpoint<Protocol>>(impl, endpoint, handler, io);
  }

 private:
  static bool has_locks(execution_context& context, scheduler& s) {
#if UNIO_ASIO_VERSION >= 103300
    (void)s;
    return config(context).get("scheduler", "locking", true);
#else
    (void)context;
    return UNIO_ASIO(CONCURRENCY_HINT_IS_LOCKING)(SCHEDULER, s.concurrency_hint());
#endif
  }
  static void renew(implementation_type& impl) {
    impl.reset(static_cast<void*>(0), socket_ops::noop_deleter());
  }
  stock_service& stock() { return use_service<stock_service>(this->context()); }

  template <class Question>
  results_type resolve_now(implementation_type& impl, typename Question::what const& what, failure& ec) {
    Question const asked(what);
    if (!names_.can_answer(asked.question())) return stock().resolve(impl, what, ec);
    std::unique_ptr<unio::foreign_answer> const a = names_.answer(asked.question());
    ec = names_on_unio::translate(a.get());
    return ec ? results_type() : asked.results(*a);
  }
  template <class Question, class Handler, class IoExecutor>
  void resolve_later(implementation_type& impl, typename Question::what const& what, Handler& handler,
                     IoExecutor const& io) {
    Question const asked(what);
    if (!names_.can_answer(asked.question())) return stock().async_resolve(impl, what, handler, io);
    typedef names_op_for<Question, Handler, IoExecutor> op;
    typename op::ptr p = {detail::addressof(handler), op::ptr::allocate(handler), 0};
    p.p = new (p.v) op(impl, asked, handler, io);
    UNIO_ASIO(HANDLER_CREATION)((scheduler_.context(), *p.p, "resolver", &impl, 0, "async_resolve"));
    names_.ask(p.p);
    p.v = p.p = 0;
  }

  scheduler& scheduler_;
  names_on_unio names_;
};

UNIO_ASIO_END
