package shedders;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiConsumer;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.extensions.BrokerRegistry;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLookupData;
import org.apache.pulsar.broker.loadbalance.extensions.data.TopBundlesLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadCounter;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadDecision;
import org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder;
import org.apache.pulsar.broker.loadbalance.extensions.store.LoadDataStore;
import org.apache.pulsar.metadata.api.NotificationType;

/** The extensible load manager's cycle: TransferShedder picks bundles and their new owners at once. */
final class TransferShedding implements Shedding {
    private final TransferShedder shedder = new TransferShedder(new UnloadCounter());
    private final ServiceConfiguration configuration;

    TransferShedding(ServiceConfiguration configuration) {
        this.configuration = configuration;
    }

    @Override
    public long runCycle(PlainCluster cluster) {
        LoadManagerContext reports = collectReports(cluster);
        long startedAt = System.nanoTime();
        // No bundle or broker counts as recently unloaded: load settles at once, so that nothing has to cool down.
        Set<UnloadDecision> decisions = shedder.findBundlesForUnloading(reports, new HashMap<>(), new HashMap<>());
        long decidedIn = System.nanoTime() - startedAt;
        for (UnloadDecision decision : decisions) {
            String destination = decision.getUnload().destBroker().orElseThrow();
            cluster.move(decision.getUnload().serviceUnit(), destination);
        }
        return decidedIn;
    }

    private LoadManagerContext collectReports(PlainCluster cluster) {
        Map<String, BrokerLoadData> brokerLoads = new HashMap<>();
        Map<String, TopBundlesLoadData> topBundles = new HashMap<>();
        Map<String, BrokerLookupData> lookups = new HashMap<>();
        cluster.bundlesByBroker().forEach((broker, owned) -> {
            brokerLoads.put(broker.id, report(broker, owned));
            topBundles.put(broker.id, reportTop(owned));
            lookups.put(broker.id, null);
        });
        return new Context(configuration, new Reports<>(brokerLoads), new Reports<>(topBundles), new Registry(lookups));
    }

    private BrokerLoadData report(PlainCluster.Broker broker, List<PlainCluster.Bundle> owned) {
        long topics = owned.stream().mapToLong(bundle -> bundle.stats.topics).sum();
        BrokerLoadData load = new BrokerLoadData();
        load.update(
                broker.report(),
                broker.bytesIn(),
                broker.bytesOut(),
                broker.msgRateIn,
                broker.msgRateOut,
                owned.size(),
                topics,
                configuration);
        return load;
    }

    /** The busiest bundles of a broker; Pulsar lists them with the least busy first. */
    private TopBundlesLoadData reportTop(List<PlainCluster.Bundle> busiestFirst) {
        int count = Math.min(configuration.getLoadBalancerMaxNumberOfBundlesInBundleLoadReport(), busiestFirst.size());
        List<PlainCluster.Bundle> top = new ArrayList<>(busiestFirst.subList(0, count));
        Collections.reverse(top);
        TopBundlesLoadData report = new TopBundlesLoadData();
        top.forEach(bundle ->
                report.getTopBundlesLoadData().add(new TopBundlesLoadData.BundleLoadData(bundle.name, bundle.stats)));
        return report;
    }

    private record Context(
            ServiceConfiguration brokerConfiguration,
            LoadDataStore<BrokerLoadData> brokerLoadDataStore,
            LoadDataStore<TopBundlesLoadData> topBundleLoadDataStore,
            BrokerRegistry brokerRegistry)
            implements LoadManagerContext {}

    /** The reports of one cycle; they are read, never changed. */
    private record Reports<T>(Map<String, T> byBroker) implements LoadDataStore<T> {
        @Override
        public Optional<T> get(String broker) {
            return Optional.ofNullable(byBroker.get(broker));
        }

        @Override
        public void forEach(BiConsumer<String, T> action) {
            byBroker.forEach(action);
        }

        @Override
        public Set<Map.Entry<String, T>> entrySet() {
            return byBroker.entrySet();
        }

        @Override
        public int size() {
            return byBroker.size();
        }

        @Override
        public CompletableFuture<Void> pushAsync(String broker, T report) {
            throw new UnsupportedOperationException("a shedder pushes no reports");
        }

        @Override
        public CompletableFuture<Void> removeAsync(String broker) {
            throw new UnsupportedOperationException("a shedder removes no reports");
        }

        @Override
        public void init() {}

        @Override
        public void start() {}

        @Override
        public void startTableView() {}

        @Override
        public void startProducer() {}

        @Override
        public void closeTableView() {}

        @Override
        public void close() {}
    }

    /** Every broker of the cluster is registered and stays so; none has lookup data, which only policies need. */
    private record Registry(Map<String, BrokerLookupData> lookups) implements BrokerRegistry {
        @Override
        public CompletableFuture<List<String>> getAvailableBrokersAsync() {
            return CompletableFuture.completedFuture(List.copyOf(lookups.keySet()));
        }

        @Override
        public CompletableFuture<Map<String, BrokerLookupData>> getAvailableBrokerLookupDataAsync() {
            return CompletableFuture.completedFuture(lookups);
        }

        @Override
        public CompletableFuture<Optional<BrokerLookupData>> lookupAsync(String broker) {
            return CompletableFuture.completedFuture(Optional.ofNullable(lookups.get(broker)));
        }

        @Override
        public boolean isStarted() {
            return true;
        }

        @Override
        public boolean isRegistered() {
            return true;
        }

        @Override
        public String getBrokerId() {
            throw new UnsupportedOperationException("the harness is no broker");
        }

        @Override
        public CompletableFuture<Void> registerAsync() {
            throw new UnsupportedOperationException("the harness is no broker");
        }

        @Override
        public void unregister() {
            throw new UnsupportedOperationException("the harness is no broker");
        }

        @Override
        public void addListener(BiConsumer<String, NotificationType> listener) {}

        @Override
        public void start() {}

        @Override
        public void close() {}
    }
}
